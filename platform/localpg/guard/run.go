package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
)

// Run runs a program to its end, and kills it if ctx ends first. Its output goes to logFile; the error
// contains the reason that the program printed.
func Run(ctx context.Context, spec Spec, logFile string) error {
	return logged(logFile, func(log *os.File) error {
		spec.Output = log
		process, err := Start(spec)
		if err != nil {
			return err
		}
		select {
		case <-process.Done():
			return process.Err()
		case <-ctx.Done():
			return errors.Join(ctx.Err(), process.End(context.WithoutCancel(ctx), syscall.SIGKILL))
		}
	})
}

// errTaken means that the port, or the shared memory of the last run, still belongs to another process.
var (
	errTaken  = errors.New("the port is taken")
	takenLine = regexp.MustCompile(`(?i)address already in use|pre-existing shared memory block`)
)

// logged calls run with the log file, positioned at its end. To run's error it adds the errors logged
// meanwhile, and errTaken if that is one of them.
func logged(file string, run func(log *os.File) error) error {
	log, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer func() { _ = log.Close() }() // the program has its own descriptor

	offset, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}

	err = run(log)
	if err == nil {
		return nil
	}

	text, readErr := io.ReadAll(io.NewSectionReader(log, offset, maxLog))
	if readErr != nil {
		return errors.Join(err, readErr)
	}

	err = fmt.Errorf("%w: %s (messages: %s)", err, reasons(string(text)), file)
	if takenLine.Match(text) {
		return fmt.Errorf("%w: %w", errTaken, err)
	}
	return err
}

// maxLog bounds the part of a log that is read for an error.
const maxLog = 1 << 20

// errorLine matches a line that reports an error.
var errorLine = regexp.MustCompile(`.*(?:FATAL|ERROR|PANIC).*`)

// reasons returns the lines of a log that report an error, or else the last line.
func reasons(text string) string {
	if found := errorLine.FindAllString(text, -1); len(found) > 0 {
		return strings.Join(found, "; ")
	}
	text = strings.TrimSpace(text)
	return text[strings.LastIndex(text, "\n")+1:]
}
