// Command mkimage writes a container image archive of one layer, without a daemon, a base
// image or a registry.
//
//	mkimage -o OUT.tar -t NAME [-entrypoint A,B] [-env K=V]... DEST=SRC...
//	mkimage -oci -arch amd64,arm64 -o OUT.tar -t NAME ... DEST=bin/{arch}/SRC...
//
// Each file SRC becomes DEST in the image and keeps its executable bit. DEST=@TARGET adds a
// symbolic link. mkimage adds the directories above each DEST, and /tmp. The same input gives
// the same archive, byte for byte, which `ctr images import` stores under exactly NAME. With
// -oci the archive is an OCI image layout for several architectures.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

// repeated is the value of a flag that may be repeated.
type repeated []string

func (r *repeated) String() string { return strings.Join(*r, ",") }

func (r *repeated) Set(value string) error {
	*r = append(*r, value)
	return nil
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mkimage:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("mkimage", flag.ExitOnError)
	var env repeated
	out := flags.String("o", "", "the archive to write")
	tag := flags.String("t", "", "the image's name, with its tag")
	entrypoint := flags.String("entrypoint", "", "the command to run, its arguments separated by commas")
	arch := flags.String("arch", runtime.GOARCH, "the processor architecture the files are for; with -oci several, separated by commas")
	oci := flags.Bool("oci", false, "write an OCI image layout; {arch} in SRC is each of the architectures")
	flags.Var(&env, "env", "an environment variable K=V (repeatable)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || *tag == "" || flags.NArg() == 0 {
		return fmt.Errorf("needs -o OUT.tar, -t NAME and at least one DEST=SRC")
	}
	entries, err := parseEntries(flags.Args())
	if err != nil {
		return err
	}
	spec := imageSpec{name: *tag, architecture: *arch, env: env, entries: entries, layerType: types.DockerLayer}
	if *entrypoint != "" {
		spec.entrypoint = strings.Split(*entrypoint, ",")
	}
	if *oci {
		spec.layerType = types.OCILayer
		return spec.writeOCI(*out, strings.Split(*arch, ","))
	}
	return spec.write(*out)
}
