package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	kget "k8s.io/kubectl/pkg/cmd/get"
)

// printFlags are the output flags of commands that print objects as kubectl get does: as
// JSON or YAML, by name, by a template or in custom columns.
type printFlags struct {
	// own are the formats that the command renders itself.
	own     []string
	printer *genericclioptions.PrintFlags
	columns *kget.CustomColumnsPrintFlags
}

// addPrintFlags adds the flags to a command whose own formats begin with the default.
func addPrintFlags(command *cobra.Command, own ...string) *printFlags {
	p := &printFlags{own: own, printer: genericclioptions.NewPrintFlags(""), columns: kget.NewCustomColumnsPrintFlags()}
	p.printer.TemplatePrinterFlags.AddFlags(command)
	flags := command.Flags()
	flags.StringVarP(p.printer.OutputFormat, "output", "o", own[0], "output format: "+strings.Join(p.formats(), ", "))
	p.printer.OutputFlagSpecified = func() bool { return flags.Changed("output") }
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(p.formats(), cobra.ShellCompDirectiveNoFileComp))
	return p
}

// formats returns all formats, the command's own first.
func (p *printFlags) formats() []string {
	return slices.Concat(p.own, p.printer.AllowedFormats(), p.columns.AllowedFormats())
}

// format returns the command's own format that was requested, or "" for an object's.
func (p *printFlags) format() string {
	if *p.printer.TemplatePrinterFlags.TemplateArgument != "" && !p.printer.OutputFlagSpecified() {
		return "" // as with kubectl, --template alone means go-template
	}
	if slices.Contains(p.own, *p.printer.OutputFormat) {
		return *p.printer.OutputFormat
	}
	return ""
}

// toPrinter returns the printer for objects, or nil if the command's own format was
// requested.
func (p *printFlags) toPrinter(noHeaders bool) (printers.ResourcePrinter, error) {
	if p.format() != "" {
		return nil, nil
	}
	output := *p.printer.OutputFormat
	p.columns.NoHeaders, p.columns.TemplateArgument = noHeaders, ""
	if strings.HasPrefix(output, "custom-columns") {
		p.columns.TemplateArgument = *p.printer.TemplatePrinterFlags.TemplateArgument
	}
	printer, err := p.columns.ToPrinter(output)
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		printer, err = p.printer.ToPrinter()
	}
	switch {
	case genericclioptions.IsNoCompatiblePrinterError(err):
		return nil, fmt.Errorf("reading --output %q: use one of %s", output, strings.Join(p.formats(), ", "))
	case err != nil:
		return nil, fmt.Errorf("reading --output %q: %w", output, err)
	}
	return printer, nil
}

// printObject prints a value with apiVersion and kind as an object with a name.
func printObject(w io.Writer, printer printers.ResourcePrinter, value any, namespace, name string) error {
	object, err := asObject(value, namespace, name)
	if err != nil {
		return err
	}
	return printRuntimeObject(w, printer, object)
}

// printRuntimeObject prints an object.
func printRuntimeObject(w io.Writer, printer printers.ResourcePrinter, object runtime.Object) error {
	if err := printer.PrintObj(object, w); err != nil {
		return fmt.Errorf("writing objects: %w", err)
	}
	return nil
}

// asObject converts a value with apiVersion and kind to an object. It adds metadata, which
// -o name and other kubectl habits need.
func asObject(value any, namespace, name string) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	out := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &out.Object); err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	out.SetNamespace(namespace)
	out.SetName(name)
	return out, nil
}

// printItems prints values as one list. of returns a value with apiVersion and kind, and its name.
func printItems[T any](w io.Writer, printer printers.ResourcePrinter, list metav1.TypeMeta, items []T, of func(T) (value any, namespace, name string)) error {
	out := &unstructured.UnstructuredList{}
	out.SetAPIVersion(list.APIVersion)
	out.SetKind(list.Kind)
	for _, item := range items {
		object, err := asObject(of(item))
		if err != nil {
			return err
		}
		out.Items = append(out.Items, *object)
	}
	return printRuntimeObject(w, printer, out)
}
