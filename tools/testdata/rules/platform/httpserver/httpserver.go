package httpserver

import (
	_ "github.com/labstack/echo/v4"
)
