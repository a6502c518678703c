package observe

import (
	"fmt"
	"net/http"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

var _ = register(subject{
	service: targets.Pyggpot,
	environ: map[string]string{"MAX_IN_FLIGHT": "16"}, // callers of a locked pot are answered 409, or 503 beyond a share
	story: []step{
		{newPot(marked, 100), http.StatusOK, "pyggpot.create"},
		{addCoins(1, 3), http.StatusOK, `POST /pyggpot.coin.Coin/AddCoins
  pyggpot.coin.Coin/AddCoins
    pyggpot.add
      batch pyggpot_change
        UPDATE pyggpot.pot
        INSERT pyggpot.coin UPDATE pyggpot.pot UPDATE pyggpot.slots
`},
		{post("/twirp/pyggpot.coin.Coin/RemoveCoins", `{"pot_id":1,"count":1}`), http.StatusOK, "pyggpot.remove"},
		{post("/pyggpot.pot.Pot/ViewPot", `{"pot_id":1}`), http.StatusOK, "pyggpot.view"},
		{post("/pyggpot.pot.Pot/ViewPotByName", `{"pot_name":"`+marked+`"}`), http.StatusOK, "pyggpot.view_by_name"},
		{post("/pyggpot.pot.Pot/ListPots", `{"page":1,"limit":10}`), http.StatusOK, "pyggpot.list"},
		{newPot(marked, 100), http.StatusConflict, ""},
		{post("/pyggpot.pot.Pot/ViewPotByName", `{"pot_name":"x`+marked+`"}`), http.StatusNotFound, ""},
		{newPot(marked+" !", 1), http.StatusBadRequest, ""},
		{post("/pyggpot.pot.Pot/CreatePot", `{"`+marked+`":1}`), http.StatusBadRequest, ""},
	},
	down: []request{addCoins(1, 1)},
	last: "INSERT pyggpot.coin UPDATE pyggpot.pot UPDATE pyggpot.slots",
})

func newPot(name string, coins int) request {
	return post("/pyggpot.pot.Pot/CreatePot", fmt.Sprintf(`{"pot_name":%q,"max_coins":%d}`, name, coins))
}

func addCoins(pot, n int) request {
	return post("/pyggpot.coin.Coin/AddCoins",
		fmt.Sprintf(`{"pot_id":%d,"coins":[{"kind":"GOLD","count":%d},{"kind":"BRONZE","count":2}]}`, pot, n))
}
