// Package client is where the callers of pyggpot begin: [pot] and [coin] hold
// the messages, potconnect and coinconnect the clients. They are generated from
// api/pyggpot and depend on nothing else of Rowlock.
//
// A client speaks Connect; connect.WithGRPC makes it speak gRPC. After
// CodeUnavailable and CodeAborted nothing was changed, and google.rpc.RetryInfo
// says when a repeat makes sense. After CodeUnknown the change may have been
// made: look before you repeat it.
package client

//go:generate go -C ../api tool -modfile=../../../tools/go.mod buf generate
