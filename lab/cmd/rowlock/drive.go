package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/lab/internal/drive"
)

// longestDrive bounds a load whose standard input does not end.
const longestDrive = 15 * time.Minute

func newDrive(p process) *cobra.Command {
	var o drive.Options
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "drive SERVICE URL [INTERNAL-URL]", Short: "Send load until standard input ends, then check the sums",
		Long:      "Send load to a running service until standard input ends, then compare what is stored with what was answered.\nThe report is one line of JSON.",
		ValidArgs: drive.Services(),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return usageError{fmt.Sprintf("drive needs a service (%s), its URL, and that of its internal API if there is one",
					strings.Join(drive.Services(), ", "))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Service, o.URL = args[0], args[1]
			if len(args) > 2 { //nolint:mnd // the third argument
				o.Internal = args[2]
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			return runDrive(ctx, p, o)
		},
	}
	cmd.Flags().IntVar(&o.Rate, "rate", 100, "operations that begin per second")
	cmd.Flags().IntVar(&o.Clients, "clients", 16, "operations in flight at most")
	cmd.Flags().DurationVar(&limit, "for", longestDrive, "end after this time at the latest")
	return cmd
}

func runDrive(ctx context.Context, p process, o drive.Options) error {
	report, err := drive.Run(ctx, o, inputEnd(p.stdin))
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

// inputEnd returns a channel that is closed when in ends.
func inputEnd(in io.Reader) <-chan struct{} {
	end := make(chan struct{})
	go func() {
		defer close(end)
		_, _ = io.Copy(io.Discard, in) // an error ends it too
	}()
	return end
}
