package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rowlock/rowlock/lab/internal/drive"
)

// longestDrive ends a load that nobody stops.
const longestDrive = 15 * time.Minute

// runDrive is `rowlock drive SERVICE URL [INTERNAL-URL]`: load until standard input ends, then a report as one line of JSON.
func runDrive(ctx context.Context, p process, args []string) error {
	o := drive.Options{}
	flags := flag.NewFlagSet("drive", flag.ContinueOnError)
	flags.SetOutput(p.stderr)
	flags.IntVar(&o.Rate, "rate", 100, "operations that are begun a `second`")
	flags.IntVar(&o.Clients, "clients", 16, "operations under way at most")
	limit := flags.Duration("for", longestDrive, "end after this `time` at the latest")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return flag.ErrHelp
		}
		return usageError{fmt.Sprintf("drive: %v", err)}
	}
	switch flags.NArg() {
	case 3: //nolint:mnd // the words of the command line
		o.Internal = flags.Arg(2)
		fallthrough
	case 2: //nolint:mnd // as above
		o.Service, o.URL = flags.Arg(0), flags.Arg(1)
	default:
		return usageError{fmt.Sprintf("drive needs a service (%s), its URL, and that of its internal API if there is one",
			strings.Join(drive.Services(), ", "))}
	}
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		_, _ = io.Copy(io.Discard, p.stdin) // its end is what matters
	}()
	report, err := drive.Run(ctx, o, stop)
	if err != nil {
		return err
	}
	line, err := json.Marshal(report)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if _, err := fmt.Fprintf(p.stdout, "%s\n", line); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
