package lab

import (
	"fmt"
	"os"
	"path/filepath"
)

// fips140Variable chooses nadra's programs of bin/fips140, if it is 1: they run with
// GODEBUG=fips140=only.
const fips140Variable = "NADRA_FIPS140"

// FIPS140 reports whether nadra's programs accept approved cryptography only.
func FIPS140() bool { return os.Getenv(fips140Variable) == "1" }

// Built returns the path of a program or an image of nadra that the Makefile has built.
func Built(name string) string {
	if FIPS140() {
		return filepath.Join(Root(), "bin", "fips140", name)
	}
	return filepath.Join(Root(), "bin", name)
}

// ImageArchive returns the path of nadra-node's image, which `make image` writes.
func ImageArchive() string { return Built("nadra-node.tar") }

// ControllerArchive returns the path of nadra-controller's image, which `make image`
// writes.
func ControllerArchive() string { return Built("nadra-controller.tar") }

// Archives returns the archives of both images of nadra, or an error if one is not built.
func Archives() ([]string, error) {
	archives := []string{ImageArchive(), ControllerArchive()}
	for _, archive := range archives {
		if _, err := os.Stat(archive); err != nil {
			return nil, fmt.Errorf("looking for nadra's images (run `make image`): %w", err)
		}
	}
	return archives, nil
}
