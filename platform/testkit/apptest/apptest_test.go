package apptest

import (
	"testing"

	"github.com/rowlock/rowlock/platform/config"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	type service struct{ config.Common }
	c := Config[service](t, "postgres://u@h/d",
		map[string]string{"LOG_LEVEL": "warn"}, map[string]string{"LOG_LEVEL": "error"})
	if c.DatabaseURL != "postgres://u@h/d" || c.LogLevel != "error" || c.HTTPAddr != "127.0.0.1:0" {
		t.Errorf("%+v", c)
	}
}
