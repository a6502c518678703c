package sqldb

import (
	"context"
	"database/sql/driver"
	"time"
)

// tx is a transaction whose COMMIT and ROLLBACK are guarded like statements.
type tx struct {
	driver.Tx

	ctx  context.Context
	conn *conn
}

// Commit returns driver.ErrBadConn when COMMIT was not sent, a *lostError when it was
// sent and not answered, and an [*Error] when a synchronous standby may lack it.
func (t *tx) Commit() error { return t.finish("COMMIT", t.commit) }

func (t *tx) commit() error {
	sentBefore, err := t.conn.beginCall(context.Background())
	if err != nil {
		_ = t.rollback() // the driver still has to end what it began for the transaction
		return err
	}
	if err := t.conn.classifyCall(t.Tx.Commit(), sentBefore); err != nil {
		return err
	}
	return t.conn.confirm()
}

// rollbackWait bounds a ROLLBACK: closing the connection does the same.
const rollbackWait = 2 * time.Second

// Rollback sends ROLLBACK.
func (t *tx) Rollback() error { return t.finish("ROLLBACK", t.rollback) }

func (t *tx) rollback() error {
	if t.conn.IsValid() {
		_ = t.conn.socket.SetDeadline(time.Now().Add(rollbackWait)) // fails on a closed socket, as ROLLBACK will
	}
	return t.Tx.Rollback()
}

// finish ends the transaction in a span and forgets its failure. A connection whose server
// might continue the transaction is marked broken.
func (t *tx) finish(name string, send func() error) error {
	span := t.conn.connector.tracing.start(t.ctx, name)
	err := send()
	endSpan(t.ctx, span, err)
	t.conn.broken = t.conn.broken || t.conn.connector.failTx && err != nil
	t.conn.inTx, t.conn.txErr = false, nil
	return err
}
