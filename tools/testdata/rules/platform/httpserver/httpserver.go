package httpserver

import "github.com/labstack/echo/v4"

type Server struct{ Echo *echo.Echo }
