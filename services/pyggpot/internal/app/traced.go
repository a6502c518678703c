package app

import (
	"context"

	"github.com/rowlock/rowlock/platform/telemetry"
	"github.com/rowlock/rowlock/services/pyggpot/internal/pot"
)

// tracedPots is the port with a span around each call.
type tracedPots struct {
	*telemetry.Operations

	next pot.PotsAPI
}

// Create implements pot.PotsAPI.
func (t tracedPots) Create(ctx context.Context, name string, maxCoins int32) (p pot.Pot, err error) {
	ctx, end := t.Start(ctx, "pyggpot.create")
	defer end(&err)
	return t.next.Create(ctx, name, maxCoins)
}

// View implements pot.PotsAPI.
func (t tracedPots) View(ctx context.Context, id pot.ID) (p pot.Pot, err error) {
	ctx, end := t.Start(ctx, "pyggpot.view")
	defer end(&err)
	return t.next.View(ctx, id)
}

// ViewByName implements pot.PotsAPI.
func (t tracedPots) ViewByName(ctx context.Context, name string) (p pot.Pot, err error) {
	ctx, end := t.Start(ctx, "pyggpot.view_by_name")
	defer end(&err)
	return t.next.ViewByName(ctx, name)
}

// List implements pot.PotsAPI.
func (t tracedPots) List(ctx context.Context, page pot.Page) (pots []pot.Pot, total int64, err error) {
	ctx, end := t.Start(ctx, "pyggpot.list")
	defer end(&err)
	return t.next.List(ctx, page)
}

// tracedCoins is the port with a span around each call.
type tracedCoins struct {
	*telemetry.Operations

	next pot.CoinsAPI
}

// Add implements pot.CoinsAPI.
func (t tracedCoins) Add(ctx context.Context, id pot.ID, coins []pot.Coins) (added []pot.Coins, err error) {
	ctx, end := t.Start(ctx, "pyggpot.add")
	defer end(&err)
	return t.next.Add(ctx, id, coins)
}

// Remove implements pot.CoinsAPI.
func (t tracedCoins) Remove(ctx context.Context, id pot.ID, wanted []pot.Coins, count int64) (removed []pot.Coins, err error) {
	ctx, end := t.Start(ctx, "pyggpot.remove")
	defer end(&err)
	return t.next.Remove(ctx, id, wanted, count)
}
