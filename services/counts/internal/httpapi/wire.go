package httpapi

import (
	"time"

	"github.com/rowlock/rowlock/services/counts/internal/counting"
)

// The JSON bodies. Pointers tell an absent member from a zero one.
type (
	changeRequest struct {
		Amount *int64 `json:"amount"`
	}
	changedResponse struct {
		ItemID string `json:"itemId"`
		Value  int64  `json:"value"`
	}
	newCountRequest struct {
		ItemID       *string `json:"itemId"`
		InitialValue *int64  `json:"initialValue"`
	}
	setRequest struct {
		Value *int64 `json:"value"`
	}
	countResponse struct {
		ItemID        string `json:"itemId"`
		CurrentValue  int64  `json:"currentValue"`
		LastUpdatedAt string `json:"lastUpdatedAt"`
	}
)

// timeLayout is RFC 3339 in UTC with microseconds, PostgreSQL's resolution.
const timeLayout = "2006-01-02T15:04:05.000000Z"

func toResponse(v counting.CountValue) countResponse {
	return countResponse{
		ItemID:        string(v.ItemID),
		CurrentValue:  v.Current,
		LastUpdatedAt: v.UpdatedAt.In(time.UTC).Format(timeLayout),
	}
}
