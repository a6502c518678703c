package observe

// The expected traces: children in the order in which they begin, an exclamation mark behind what failed.
const (
	treeCreate = `POST /api/v1/internal/counts
  counts.initialize
    BEGIN
    INSERT counts.count_values
    SELECT pg_current_xact_id
    COMMIT
`
	treeIncrease = `POST /api/v1/counts/{itemId}/increase
  counts.increase
    batch counts_add
      UPDATE counts.count_values
`
	treeRead = `GET /api/v1/internal/counts
  counts.get_many
    SELECT counts.count_values
`
	// The first statement found nothing; the second says why.
	treeNotFound = `POST /api/v1/counts/{itemId}/increase
  counts.increase
    batch counts_add
      UPDATE counts.count_values
      UPDATE counts.count_values
`
	// The operation begins before the request is decoded.
	treeBad = `POST /api/v1/counts/{itemId}/increase
  counts.increase
`
	treePay = `POST /v1/payments
  payments.pay
    SELECT payments.idempotency_records
    BEGIN
    SET
    INSERT payments.idempotency_records
    SELECT payments.payments
    processor.charge
      INSERT payments.processor_charges
    INSERT payments.payments UPDATE payments.idempotency_records
    COMMIT
`
	treeReplay = `POST /v1/payments
  payments.pay
    SELECT payments.idempotency_records
`
	treeFault = `POST /v1/payments !
  payments.pay !
    SELECT payments.idempotency_records
    BEGIN
    SET
    INSERT payments.idempotency_records
    SELECT payments.payments
    processor.charge !
      SELECT payments.processor_charges
    ROLLBACK
`
	treeAdd = `POST /iidy/v1/lists/{list}/{item}
  iidy.add
    batch iidy_add
      INSERT iidy.lists
`
	treeBatch = `POST /iidy/v1/batch/lists/{list}
  iidy.add_batch
    BEGIN
    INSERT iidy.lists
    SELECT pg_current_xact_id
    COMMIT
`
	treeEvent = `POST /events
  events.create
    batch events_add
      UPDATE events.status INSERT events.events
`
	treeWork = `events.work
  BEGIN
  SELECT events.events
  DELETE events.events INSERT events.events
  COMMIT
`
	treeCoins = `POST /pyggpot.coin.Coin/AddCoins
  pyggpot.coin.Coin/AddCoins
    pyggpot.add
      UPDATE pyggpot.pot
      BEGIN
      SELECT pyggpot.pot
      INSERT pyggpot.coin UPDATE pyggpot.pot
      COMMIT
`
)
