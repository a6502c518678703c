package app_test

import (
	"strings"
	"testing"

	"connectrpc.com/grpchealth"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/rowlock/rowlock/client/pyggpot/coin/coinconnect"
	potpb "github.com/rowlock/rowlock/client/pyggpot/pot"
	"github.com/rowlock/rowlock/client/pyggpot/pot/potconnect"
	"github.com/rowlock/rowlock/platform/auth"
	"github.com/rowlock/rowlock/platform/testkit/apptest"
	"github.com/rowlock/rowlock/platform/testkit/dbtest"
	"github.com/rowlock/rowlock/services/pyggpot/api"
	"github.com/rowlock/rowlock/services/pyggpot/internal/app"
	"github.com/rowlock/rowlock/services/pyggpot/internal/postgres"
)

// With AUTH=token each procedure needs its right, and each protocol says so. gRPC's health check is public; its
// reflection, which lists the procedures, is not.
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
	for way, c := range callers(t, r) {
		wantRefusal(t, way, c.call(t, &potpb.ViewPotRequest{PotId: 1}, nil), "unauthenticated", "UNAUTHENTICATED", "")
	}

	conn := dial(t, r)
	health := grpc_health_v1.NewHealthClient(conn)
	for service, healthy := range map[string]bool{
		"": true, potconnect.PotName: true, coinconnect.CoinName: true, "nope": false,
	} {
		a, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if (err == nil && a.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING) != healthy {
			t.Errorf("%q is %v (%v)", service, a.GetStatus(), err)
		}
	}

	procedures := func(header ...string) (string, error) {
		ctx := metadata.AppendToOutgoingContext(t.Context(), header...)
		stream, err := reflectpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
		if err != nil {
			return "", err
		}
		_ = stream.Send(&reflectpb.ServerReflectionRequest{ // Recv says why it failed
			MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{},
		})
		a, err := stream.Recv()
		return a.GetListServicesResponse().String(), err
	}
	if _, err := procedures(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("reflection without a token: %v", err)
	}
	list, err := procedures("authorization", "Bearer "+issuer.Token("read"))
	for _, want := range []string{potconnect.PotName, coinconnect.CoinName, grpchealth.HealthV1ServiceName} {
		if err != nil || !strings.Contains(list, want) {
			t.Errorf("reflection lists %s, %v; want %s", list, err, want)
		}
	}
}
