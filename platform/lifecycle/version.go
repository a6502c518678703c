package lifecycle

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker for images and releases:
//
//	-ldflags "-X github.com/rowlock/rowlock/platform/lifecycle.version=v1.2.3"
var version string

// Version returns the version of the binary: the one given to the linker, else the main module's version as recorded by
// the go command (a tag, or a pseudo-version with time and commit), else "devel".
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

func (p Program) version() string {
	return fmt.Sprintf("%s %s (%s, %s/%s)\n", p.Name, Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
