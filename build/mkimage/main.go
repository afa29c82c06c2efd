// Command mkimage writes a container image archive of one layer, from nothing
// but files: no daemon, no base image, no registry.
//
//	mkimage -o OUT.tar -t NAME [-entrypoint A,B] [-env K=V]... DEST=SRC...
//
// Each file SRC becomes DEST in the image and keeps its executable bit.
// DEST=@TARGET makes a symbolic link instead. The directories above a DEST are
// made, and so is /tmp. The same input gives the same archive, byte for byte,
// which `ctr images import` stores under exactly NAME.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// repeated is a flag that may be given several times.
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
	arch := flags.String("arch", runtime.GOARCH, "the processor architecture the files are for")
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
	spec := imageSpec{name: *tag, architecture: *arch, env: env, entries: entries}
	if *entrypoint != "" {
		spec.entrypoint = strings.Split(*entrypoint, ",")
	}
	return spec.write(*out)
}
