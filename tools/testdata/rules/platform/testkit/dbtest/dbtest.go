package dbtest
