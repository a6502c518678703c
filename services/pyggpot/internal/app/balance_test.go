package app_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/waittest"
	"github.com/rowlock/rowlock/services/pyggpot/internal/app"
)

// TestClientsOfGRPCBalance: a client that gets the addresses of all replicas, as the chart's headless Service gives
// them, and asks for round_robin, calls all of them. While one of them drains no call fails.
func TestClientsOfGRPCBalance(t *testing.T) {
	t.Parallel()
	first, dsn := start(t, nil)
	replicas := []*replica{first, {apptest.Run(t, app.Service(), dsn)}}
	var endpoints []resolver.Endpoint
	for _, r := range replicas {
		address := resolver.Address{Addr: strings.TrimPrefix(r.API, "http://")}
		endpoints = append(endpoints, resolver.Endpoint{Addresses: []resolver.Address{address}})
	}
	names := manual.NewBuilderWithScheme("test")
	names.InitialState(resolver.State{Endpoints: endpoints})
	conn, err := grpc.NewClient("test:///pyggpot", grpc.WithResolvers(names),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"round_robin":{}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	call := func() {
		t.Helper()
		request, answer := &potpb.ListPotsRequest{Page: 1}, new(potpb.PotListResponse)
		if err := conn.Invoke(t.Context(), "/pyggpot.pot.Pot/ListPots", request, answer); err != nil {
			t.Error(err)
		}
	}
	waittest.Eventually(t, "each replica has answered", func() bool {
		call()
		answered := 0
		for _, r := range replicas {
			if strings.Contains(r.Metrics(t), `_count{method="POST",route="/pyggpot.pot.Pot/ListPots",`) {
				answered++
			}
		}
		return answered == len(replicas)
	})
	ended := make(chan error, 1)
	go func() { ended <- first.Stop() }()
	for draining := true; draining && !t.Failed(); {
		select {
		case err = <-ended:
			draining = false
		default:
			call()
		}
	}
	if call(); err != nil {
		t.Errorf("stop: %v", err)
	}
}
