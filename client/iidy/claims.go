package iidy

import (
	"context"
	"time"

	"github.com/google/uuid"

	rowlock "github.com/rowlock/rowlock/client"
	"github.com/rowlock/rowlock/client/internal/call"
	api "github.com/rowlock/rowlock/client/internal/iidyapi"
)

// Claim claims up to count free items, at most 10,000, for the duration of the
// lease, one second to twelve hours. No other claim gets them before it expires.
func (l *List) Claim(ctx context.Context, count int, lease time.Duration) (Claim, error) {
	// If nothing was free, claim and lease_until are empty strings, not a UUID and a time.
	type taken struct {
		Claim   string      `json:"claim"`
		Until   string      `json:"lease_until"`
		Entries []api.Entry `json:"listentries"`
	}

	action, text := api.ChangeItemsParamsActionClaim, lease.String()
	params := api.ChangeItemsParams{Action: &action, Count: &count, Lease: &text}
	a, err := call.Answer[taken](l.api.ChangeItemsWithTextBody(ctx, l.name, &params, ""))
	if err != nil || a.Claim == "" {
		return Claim{}, err
	}

	until, err := time.Parse(time.RFC3339Nano, a.Until)
	if err != nil {
		return Claim{}, &rowlock.Error{Code: rowlock.ErrBadAnswer, Detail: "lease_until is no time: " + a.Until, Err: err}
	}
	return Claim{a.Claim, until, entries(a.Entries)}, nil
}

// Extend renews the lease of the items that the claim still holds, from now on, and
// returns their number.
func (l *List) Extend(ctx context.Context, claim string, lease time.Duration) (int64, error) {
	text := lease.String()
	changed, err := l.claimed(ctx, claim, api.ChangeItemsParams{Lease: &text}, api.ChangeItemsParamsActionExtend)
	return call.Value(changed.Extended), err
}

// Release frees the items that the claim still holds, and returns their number.
func (l *List) Release(ctx context.Context, claim string) (int64, error) {
	changed, err := l.claimed(ctx, claim, api.ChangeItemsParams{}, api.ChangeItemsParamsActionRelease)
	return call.Value(changed.Released), err
}

func (l *List) claimed(
	ctx context.Context, claim string, params api.ChangeItemsParams, action api.ChangeItemsParamsAction,
) (api.Changed, error) {
	id, err := parse(claim)
	if err != nil {
		return api.Changed{}, err
	}
	params.Action, params.Claim = &action, id
	return call.Answer[api.Changed](l.api.ChangeItemsWithTextBody(ctx, l.name, &params, ""))
}

// IncrementClaimed works like Increment on those items that the claim still holds.
// They stay claimed until the lease expires: that is the delay before the next
// attempt.
func (l *List) IncrementClaimed(ctx context.Context, claim string, items ...string) (int64, error) {
	id, err := parse(claim)
	if err != nil {
		return 0, err
	}
	return incremented(l.api.IncrementItems(ctx, l.name, &api.IncrementItemsParams{Claim: id}, api.Items{Items: items}))
}

// DeleteClaimed works like Delete on those items that the claim still holds.
func (l *List) DeleteClaimed(ctx context.Context, claim string, items ...string) (int64, error) {
	id, err := parse(claim)
	if err != nil {
		return 0, err
	}
	return deleted(l.api.DeleteItems(ctx, l.name, &api.DeleteItemsParams{Claim: id}, api.Items{Items: items}))
}

func parse(claim string) (*uuid.UUID, error) {
	id, err := uuid.Parse(claim)
	if err != nil {
		return nil, &rowlock.Error{Code: rowlock.ErrInvalidField, Field: "claim", Detail: "a claim is a UUID", Err: err}
	}
	return &id, nil
}
