// Command plugin acts as every CNI plugin of the conformance suite: the plugin directory of
// Multus and nadra has a link to it under each plugin's name. It records its input, and
// then becomes the real plugin of that name. For a plugin that is not one of the reference
// plugins it is a stand-in that creates a real interface.
//
// The paths of its files follow from its own: beside its directory are "plugins", with the
// real plugins, and "trace", with a line of JSON for each call.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"
)

func main() {
	if err := run(); err != nil {
		_ = asCNIError(err).Print()
		os.Exit(1)
	}
}

func run() error {
	stdin, err := io.ReadAll(os.Stdin)
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	name := filepath.Base(os.Args[0])
	surroundings := filepath.Dir(filepath.Dir(os.Args[0]))
	if err := writeCall(filepath.Join(surroundings, "trace"), name, stdin); err != nil {
		return err
	}
	real := filepath.Join(surroundings, "plugins", name)
	if _, err := os.Stat(real); err == nil {
		return become(real, stdin)
	}
	return standIn(name, stdin)
}

// writeCall appends a line in one write, so that lines of other processes do not mix with
// it.
func writeCall(path, name string, stdin []byte) error {
	env := map[string]string{}
	for _, variable := range os.Environ() {
		if key, value, _ := strings.Cut(variable, "="); strings.HasPrefix(key, "CNI_") {
			env[key] = value
		}
	}
	line, err := json.Marshal(map[string]any{"type": name, "env": env, "stdin": string(stdin)})
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the trace: %w", err)
	}
	defer file.Close()
	_, err = file.Write(append(line, '\n'))
	return err
}

// become replaces this process by the real plugin. It passes on the input as a file in
// memory, which has room for a configuration of any size.
func become(path string, stdin []byte) error {
	fd, err := unix.MemfdCreate("stdin", 0)
	if err != nil {
		return fmt.Errorf("passing the configuration on: %w", err)
	}
	file := os.NewFile(uintptr(fd), "stdin")
	if _, err := file.Write(stdin); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := unix.Dup3(fd, 0, 0); err != nil {
		return err
	}
	return unix.Exec(path, []string{path}, os.Environ())
}

func asCNIError(err error) *types.Error {
	if e, ok := err.(*types.Error); ok { //nolint:errorlint // only an error for the runtime
		return e
	}
	return types.NewError(types.ErrInternal, err.Error(), "")
}
