package app_test

import (
	"context"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rowlock/rowlock/client/pyggpot/coin"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/pyggpot/api"
	"github.com/rowlock/rowlock/services/pyggpot/internal/app"
	"github.com/rowlock/rowlock/services/pyggpot/internal/postgres"
)

// bearer sends a token with each call.
func bearer(token string) connect.UnaryInterceptorFunc {
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			request.Header().Set("Authorization", "Bearer "+token)
			return next(ctx, request)
		}
	}
}

// With AUTH=token each procedure needs its right, by each protocol.
func TestRights(t *testing.T) {
	t.Parallel()
	guarded, issuer := apptest.RunGuarded(t, app.Service(), dbtest.Postgres(t, postgres.Migrations()))
	apptest.RightsAreInForce(t, guarded, issuer, api.OpenAPI, map[string]auth.Right{
		"POST /pyggpot.pot.Pot/CreatePot":     auth.Change,
		"POST /pyggpot.pot.Pot/ViewPot":       auth.Read,
		"POST /pyggpot.pot.Pot/ViewPotByName": auth.Read,
		"POST /pyggpot.pot.Pot/ListPots":      auth.Read,
		"POST /pyggpot.coin.Coin/AddCoins":    auth.Change,
		"POST /pyggpot.coin.Coin/RemoveCoins": auth.Change,
	})
	r := &replica{guarded}
	procedures := []struct {
		request proto.Message
		right   auth.Right
	}{
		{&potpb.CreatePotRequest{PotName: "Piggy", MaxCoins: 100}, auth.Change},
		{&potpb.ViewPotRequest{PotId: 1}, auth.Read},
		{&potpb.ViewPotByNameRequest{PotName: "Piggy"}, auth.Read},
		{&potpb.ListPotsRequest{Page: 1}, auth.Read},
		{&coin.AddCoinsRequest{PotId: 1, Coins: kinds(1, 1)}, auth.Change},
		{&coin.RemoveCoinsRequest{PotId: 1, Count: 1}, auth.Change},
	}
	methods := potpb.File_pyggpot_pot_pot_proto.Services().Get(0).Methods().Len() +
		coin.File_pyggpot_coin_coin_proto.Services().Get(0).Methods().Len()
	if len(procedures) != methods {
		t.Errorf("the contract has %d procedures, and this test %d", methods, len(procedures))
	}
	for way, c := range callers(t, r) {
		for _, p := range procedures {
			wantRefusal(t, way, c.call(t, p.request, nil), "unauthenticated", "UNAUTHENTICATED", "")
		}
	}
	for _, subject := range []auth.Right{auth.Read, auth.Change, auth.Administer} {
		for way, c := range callers(t, r, connect.WithInterceptors(bearer(issuer.Token(string(subject))))) {
			for _, p := range procedures {
				refused := c.call(t, p.request, nil)
				if p.right != subject {
					wantRefusal(t, way, refused, "permission_denied", "FORBIDDEN", "")
				} else if refused != nil && (refused.reason == "FORBIDDEN" || refused.reason == "UNAUTHENTICATED") {
					t.Errorf("%s: %T by one who may %s: %+v", way, p.request, subject, refused)
				}
			}
		}
	}
}

// gRPC's health check is public, its reflection is not.
func TestRightsOfHealthAndReflection(t *testing.T) {
	t.Parallel()
	guarded, issuer := apptest.RunGuarded(t, app.Service(), dbtest.Postgres(t, postgres.Migrations()))
	conn := dial(t, &replica{guarded})
	health := grpc_health_v1.NewHealthClient(conn)
	if _, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	reflects := func(header ...string) error {
		ctx := metadata.AppendToOutgoingContext(t.Context(), header...)
		stream, err := reflectpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
		if err != nil {
			return err
		}
		_ = stream.Send(&reflectpb.ServerReflectionRequest{ // Recv says why it failed
			MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{},
		})
		_, err = stream.Recv()
		return err
	}
	if err := reflects(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("reflection without a token: %v", err)
	}
	if err := reflects("authorization", "Bearer "+issuer.Token("read")); err != nil {
		t.Errorf("reflection by one who may read: %v", err)
	}
}
