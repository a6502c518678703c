package httpapi

import (
	"context"
	"errors"
	"slices"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"

	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	"github.com/rowlock/rowlock/client/pyggpot/pot/potconnect"
)

// services returns the names of the contract's services.
func services() []string { return []string{potconnect.PotName, coinconnect.CoinName} }

// health answers gRPC's health check with the state of /readyz. It does not support Watch: each watcher would hold a
// request open forever.
type health struct{ ready func() (bool, string) }

// Check implements grpchealth.Checker.
func (h health) Check(_ context.Context, r *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	if r.Service != "" && !slices.Contains(services(), r.Service) {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("there is no such service"))
	}

	status := grpchealth.StatusNotServing
	if ready, _ := h.ready(); ready {
		status = grpchealth.StatusServing
	}
	return &grpchealth.CheckResponse{Status: status}, nil
}
