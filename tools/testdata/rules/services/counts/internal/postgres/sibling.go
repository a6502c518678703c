package postgres

import _ "github.com/rowlock/rowlock/services/counts/internal/httpapi/wire"
