package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
)

// resources are the API server's resources of the kinds in apiServer's objects.
var resources = map[string]string{
	"Node": "nodes", "Pod": "pods", "Event": "events", "ResourceClaim": "resourceclaims", "ResourceClaimTemplate": "resourceclaimtemplates",
	"ResourceSlice": "resourceslices", "DeviceClass": "deviceclasses", "NetworkAttachmentDefinition": "network-attachment-definitions",
}

// apiServer serves the objects of inspect's tests: one pod with one network of nadra. The text of the objects is changed by
// pairs of old and new strings.
func apiServer(t *testing.T, changes ...string) *httptest.Server {
	t.Helper()
	text, err := os.ReadFile("../inspect/testdata/base.yaml")
	if err != nil {
		t.Fatal(err)
	}
	items := map[string][]map[string]any{}
	for document := range strings.SplitSeq(strings.NewReplacer(changes...).Replace(string(text)), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		resource := resources[object["kind"].(string)]
		items[resource] = append(items[resource], object)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		parts := strings.Split(r.URL.Path, "/")
		last := parts[len(parts)-1]
		for _, object := range items[parts[len(parts)-2]] {
			if object["metadata"].(map[string]any)["name"] == last {
				_ = json.NewEncoder(w).Encode(object)
				return
			}
		}
		list := items[last]
		if list == nil {
			list = []map[string]any{}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": list})
	}))
	t.Cleanup(server.Close)
	return server
}

// runAgainst runs a command line against a server.
func runAgainst(t *testing.T, server *httptest.Server, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte("{apiVersion: v1, kind: Config}"), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{"--kubeconfig", config, "--server", server.URL}, args...)
	code = Run(t.Context(), args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
	return out.String(), errOut.String(), code
}

// TestGetAttachmentsFormats checks each output format of get attachments.
func TestGetAttachmentsFormats(t *testing.T) {
	server := apiServer(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"path": "{.items[*].mac}", "template": "{{range .items}}{{.pod}} {{.state}}\n{{end}}", "columns": "MAC   NET\n.mac  .network.name\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const table = "POD   INTERFACE   NETWORK        STATE      IPS           NODE\nweb   data0       default/blue   Attached   10.1.0.2/24   n1\n"
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, table},
		{[]string{"-o", "table"}, table},
		{[]string{"--no-headers"}, "web   data0   default/blue   Attached   10.1.0.2/24   n1\n"},
		{[]string{"-o", "wide"}, "POD   INTERFACE   NETWORK        STATE      IPS           NODE   MAC                 DEVICE                    POOL   CLAIM               REQUEST   MESSAGE\n" +
			"web   data0       default/blue   Attached   10.1.0.2/24   n1     ba:5a:17:00:00:01   node-0-0   n1     web-nadra-x7k2p     data0     -\n"},
		{[]string{"-o", "name"}, "attachment.nadra.dev/web.data0\n"},
		{[]string{"-o", "jsonpath={.items[*].ips[0]}"}, "10.1.0.2/24"},
		{[]string{"-o", "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}"}, "default/web.data0\n"},
		{[]string{"-o", "jsonpath", "--template", "{.items[0].state}"}, "Attached"},
		{[]string{"-o", "jsonpath-as-json={.items[*].network}"}, "[\n    {\n        \"name\": \"blue\",\n        \"namespace\": \"default\"\n    }\n]\n"},
		{[]string{"-o", "jsonpath-file=" + filepath.Join(dir, "path")}, "ba:5a:17:00:00:01"},
		{[]string{"-o", "go-template={{range .items}}{{.interface}}{{end}}"}, "data0"},
		{[]string{"--template", "{{len .items}}"}, "1"},
		{[]string{"-o", "go-template-file=" + filepath.Join(dir, "template")}, "web Attached\n"},
		{[]string{"-o", "custom-columns=POD:.pod,NETWORK:.network.name,NOTHING:.absent"}, "POD   NETWORK   NOTHING\nweb   blue      <none>\n"},
		{[]string{"-o", "custom-columns=POD:.pod", "--no-headers"}, "web\n"},
		{[]string{"-o", "custom-columns-file=" + filepath.Join(dir, "columns")}, "MAC                 NET\nba:5a:17:00:00:01   blue\n"},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			out, errOut, code := runAgainst(t, server, append([]string{"get", "attachments"}, tt.args...)...)
			if code != CodeOK || errOut != "" {
				t.Fatalf("exit code %d: %s", code, errOut)
			}
			if diff := cmp.Diff(fields(tt.want), fields(out)); diff != "" {
				t.Errorf("output (-want +got):\n%s\n%s", diff, out)
			}
		})
	}
}

// fields splits lines into fields, because widths of columns do not matter.
func fields(text string) [][]string {
	var out [][]string
	for line := range strings.Lines(text) {
		out = append(out, strings.Fields(line))
	}
	return out
}

// TestGetAttachmentsAsObjects checks the JSON and YAML forms, in which the fields of an
// attachment may be added and never removed.
func TestGetAttachmentsAsObjects(t *testing.T) {
	server := apiServer(t)
	want := map[string]any{
		"apiVersion": "nadra.dev/v1alpha1", "kind": "AttachmentList", "items": []any{map[string]any{
			"apiVersion": "nadra.dev/v1alpha1", "kind": "Attachment", "metadata": map[string]any{"namespace": "default", "name": "web.data0"},
			"namespace": "default", "pod": "web", "node": "n1", "interface": "data0", "network": map[string]any{"namespace": "default", "name": "blue"},
			"claim": "web-nadra-x7k2p", "request": "data0", "device": "node-0-0", "pool": "n1", "state": "Attached",
			"ips": []any{"10.1.0.2/24"}, "mac": "ba:5a:17:00:00:01",
		}},
	}
	for _, format := range []string{"json", "yaml"} {
		out, errOut, code := runAgainst(t, server, "get", "attachments", "-A", "-o", format)
		if code != CodeOK || errOut != "" {
			t.Fatalf("exit code %d: %s", code, errOut)
		}
		if isJSON := json.Valid([]byte(out)); isJSON != (format == "json") {
			t.Errorf("-o %s writes %s", format, out)
		}
		var got map[string]any
		if err := yaml.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-o %s (-want +got):\n%s", format, diff)
		}
	}
	out, _, code := runAgainst(t, server, "get", "attachments", "--node", "n2", "-o", "json")
	if code != CodeOK || !strings.Contains(out, `"items": []`) {
		t.Errorf("without attachments: code %d, %s", code, out)
	}
	out, errOut, _ := runAgainst(t, server, "get", "attachments", "--node", "n2")
	if out != "" || errOut != "No attachments found in namespace default.\n" {
		t.Errorf("a table without rows: %q, %q", out, errOut)
	}
}

// TestExplainPodFormats checks that explain prints a pod's chain in the same formats.
func TestExplainPodFormats(t *testing.T) {
	server := apiServer(t)
	for format, want := range map[string]string{
		"text":                               "Pod default/web on node n1",
		"json":                               `"verdict": "ok"`,
		"yaml":                               "verdict: ok",
		"jsonpath={.verdict}":                "ok",
		"go-template={{.pod}}":               "web",
		"custom-columns=POD:.pod,NODE:.node": "POD   NODE",
		"jsonpath={.steps[?(@.name==\"claim\")].state}": "ok",
	} {
		out, errOut, code := runAgainst(t, server, "explain", "pod/web", "-o", format)
		if code != CodeOK || !strings.Contains(out, want) {
			t.Errorf("-o %s: code %d, %s%s", format, code, out, errOut)
		}
	}
}

// TestTenantsEscapes checks that what others have written into a claim's status does not act on the terminal, nor looks like
// a line of nadra's.
func TestTenantsEscapes(t *testing.T) {
	const evil = `\e[31mred\nweb   net9`
	server := apiServer(t, "[10.1.0.2/24]", `["`+evil+`"]`, `status: "True", reason: Attached, message: network default/blue is attached as data0`, `status: "False", reason: AttachFailed, message: "`+evil+`"`)
	for _, args := range [][]string{{"get", "attachments", "-o", "wide"}, {"explain", "pod/web"}} {
		out, errOut, _ := runAgainst(t, server, args...)
		if !strings.Contains(out+errOut, "31mred") || strings.Contains(out+errOut, "\x1b") || strings.Contains(out+errOut, "\nweb   net9") {
			t.Errorf("%q prints %q, %q", args, out, errOut)
		}
	}
}

// TestUnknownFormats checks that an unknown format names the known ones.
func TestUnknownFormats(t *testing.T) {
	server := apiServer(t)
	for _, tt := range []struct{ args, names []string }{
		{[]string{"get", "attachments", "-o", "xml"}, []string{`"xml"`, "table", "wide", "json", "yaml", "name", "jsonpath", "go-template", "custom-columns"}},
		{[]string{"get", "attachments", "-o", "text"}, []string{`"text"`}},
		{[]string{"get", "attachments", "-o", "custom-columns"}, []string{`"custom-columns"`, "no custom columns given"}},
		{[]string{"get", "attachments", "-o", "jsonpath={"}, []string{`"jsonpath={"`, "unclosed action"}},
		{[]string{"explain", "pod/web", "-o", "table"}, []string{`"table"`, "text", "json", "yaml"}},
	} {
		out, errOut, code := runAgainst(t, server, tt.args...)
		if code != CodeError || out != "" {
			t.Errorf("%v: code %d, output %q", tt.args, code, out)
		}
		for _, name := range append(tt.names, "--output") {
			if !strings.Contains(errOut, name) {
				t.Errorf("%v: the error lacks %q: %s", tt.args, name, errOut)
			}
		}
	}
}

// TestWatchPrintsObjects checks that a watch prints each changed attachment as an object of
// its own.
func TestWatchPrintsObjects(t *testing.T) {
	var out bytes.Buffer
	o := &getOptions{app: &app{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &out}}}
	command := &cobra.Command{}
	o.print = addPrintFlags(command, "table", "wide")
	if err := command.ParseFlags([]string{"-o", "yaml"}); err != nil {
		t.Fatal(err)
	}
	var err error
	if o.printer, err = o.print.toPrinter(false); err != nil {
		t.Fatal(err)
	}
	for _, mac := range []string{"02:00:00:00:00:01", "02:00:00:00:00:01", "02:00:00:00:00:02"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{
			"k8s.v1.cni.cncf.io/networks":       "blue",
			"k8s.v1.cni.cncf.io/network-status": `[{"name":"default/blue","interface":"net1","mac":"` + mac + `"}]`,
		}}, Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		if err := o.printChanges(inspect.Input{Pods: []*corev1.Pod{pod}}); err != nil {
			t.Fatal(err)
		}
	}
	documents := strings.Split(out.String(), "---\n")
	if len(documents) != 2 || !strings.Contains(documents[0], "kind: Attachment\n") || !strings.Contains(documents[1], `mac: "02:00:00:00:00:02"`) {
		t.Errorf("the watch printed:\n%s", out.String())
	}
}
