package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/lab/internal/targets"
)

// longestDrive bounds a load whose standard input does not end.
const longestDrive = 15 * time.Minute

func newDrive(p process) *cobra.Command {
	var load targets.Load
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "drive SERVICE URL [INTERNAL-URL]",
		Short: "Send load until standard input ends, then check the sums",
		Long: "Send load to a running service until standard input ends, then compare what is stored with\n" +
			"what was answered. The report is one line of JSON.",
		ValidArgs: targets.Names(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return usageError{fmt.Sprintf("drive needs a service (%s), its URL, and that of its internal API if there is one",
					strings.Join(targets.Names(), ", "))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			load.Service, load.URL = args[0], args[1]
			if len(args) > 2 { //nolint:mnd // the third argument
				load.Internal = args[2]
			}
			if err := load.Validate(); err != nil {
				return usageError{fmt.Sprintf("drive: %v", err)}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			return runDrive(ctx, p, load)
		},
	}
	cmd.Flags().IntVar(&load.Rate, "rate", 100, "operations that begin per second")
	cmd.Flags().IntVar(&load.Clients, "clients", 16, "operations in flight at most")
	tokenFlag(cmd, &load.TokenFile)
	cmd.Flags().DurationVar(&limit, "for", longestDrive, "end after this time at the latest")
	return cmd
}

func runDrive(ctx context.Context, p process, load targets.Load) error {
	report, err := targets.Drive(ctx, load, inputEnd(p.stdin))
	if err != nil {
		return err
	}
	if err := json.NewEncoder(p.stdout).Encode(report); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// inputEnd returns a channel that is closed when in ends.
func inputEnd(in io.Reader) <-chan struct{} {
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _ = io.Copy(io.Discard, in) // an error ends it too
	}()
	return end
}
