module github.com/rowlock/rowlock/lab

go 1.26.0

require (
	github.com/rowlock/rowlock/platform v0.0.0
	github.com/rowlock/rowlock/services/counts v0.0.0
)

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0 // indirect
	github.com/lib/pq v1.12.3 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)

replace github.com/rowlock/rowlock/platform => ../platform

replace github.com/rowlock/rowlock/services/counts => ../services/counts
