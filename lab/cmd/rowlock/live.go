package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/lab/internal/fault"
	"github.com/rowlock/rowlock/lab/internal/live"
	"github.com/rowlock/rowlock/platform/lifecycle"
	"github.com/rowlock/rowlock/platform/sqldb"
	"github.com/rowlock/rowlock/platform/testkit/dbtest/faultproxy"
)

// pagePort is where the live page is, unless the port is in use.
const pagePort = 8080

// livePage is the page that shows the services of a [system]. It needs the private server: replicas reach that through
// proxies, and the page reads its tables as the superuser.
type livePage struct {
	system   *system
	listener net.Listener
	server   *http.Server
	db       *sqldb.DB
	page     *live.Page
}

// part returns what is started and stopped for the page.
func (l *livePage) part() lifecycle.Part {
	return lifecycle.Part{Name: "live page", Start: l.start, Run: l.run, Stop: func(context.Context) error {
		return l.server.Close() // its streams do not end by themselves
	}}
}

func (l *livePage) start(ctx context.Context) (err error) {
	l.db, err = sqldb.Open(ctx, sqldb.Settings{
		URL: l.system.server.URL(database), ApplicationName: "rowlock up", LockTimeout: pingTimeout,
		StatementTimeout: pingTimeout,
	}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}

	var config net.ListenConfig
	l.listener, err = config.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", pagePort))
	if errors.Is(err, syscall.EADDRINUSE) {
		l.listener, err = config.Listen(ctx, "tcp", "127.0.0.1:0")
	}
	if err != nil {
		return errors.Join(err, l.db.Close())
	}

	var services []*live.Service
	for _, r := range l.system.running {
		services = append(services, live.NewService(r.service.Name, r.balancer, r.replicas, r.proxy))
	}
	l.page = live.New(&fault.Injector{DB: l.db}, services)
	l.server = &http.Server{Handler: l.page.Handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = l.server.Serve(l.listener) }() // until Stop
	return nil
}

func (l *livePage) run(ctx context.Context) error {
	l.page.Run(ctx)
	return l.db.Close()
}

// url returns the page's address.
func (l *livePage) url() string { return "http://" + l.listener.Addr().String() }

// throughProxy leads the replicas' way to the private server through a proxy, which the live page can tell to cut
// replies.
func (r *running) throughProxy() error {
	u, err := url.Parse(r.environ["DATABASE_URL"])
	if err != nil {
		return errors.New("the service's URL cannot be read") // err would repeat the password
	}
	if r.proxy, err = faultproxy.Start(u.Host, nil); err != nil {
		return err
	}
	r.environ["DATABASE_URL"] = r.proxy.DSN(r.environ["DATABASE_URL"])
	return nil
}

func (r *running) closeProxy(context.Context) error {
	if r.proxy != nil {
		r.proxy.Close()
	}
	return nil
}
