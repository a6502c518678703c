package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/rowlock/rowlock/lab/internal/check"
)

// runCheck is `rowlock check --SERVICE=URL ...`: it checks the services that are named, wherever they run.
func runCheck(ctx context.Context, p process, args []string) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(p.stderr)
	apis, internals := map[string]*string{}, map[string]*string{}
	for _, name := range check.Services() {
		apis[name] = flags.String(name, "", "`URL` of "+name)
		internals[name] = flags.String(name+"-internal", "", "`URL` of its internal API, if it has one of its own")
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return flag.ErrHelp
		}
		return usageError{fmt.Sprintf("check: %v", err)}
	}
	if flags.NArg() > 0 {
		return usageError{fmt.Sprintf("check: what does %q mean?", strings.Join(flags.Args(), " "))}
	}
	var targets []check.Target
	for _, name := range check.Services() {
		if *apis[name] != "" {
			targets = append(targets, check.Target{Service: name, URL: *apis[name], Internal: *internals[name]})
		}
	}
	if len(targets) == 0 {
		return usageError{"check needs the address of at least one service, such as --counts=http://127.0.0.1:8083"}
	}
	return check.Run(ctx, p.stdout, targets)
}
