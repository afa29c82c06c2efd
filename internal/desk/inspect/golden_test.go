package inspect

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/test/golden"
)

// TestGolden compares what get and explain print about the objects of each archive. An
// archive also has the objects of base.yaml, a cluster without errors, unless it has one
// of the same name or a line "without KIND/NAME".
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no archives", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { checkArchive(t, path) })
	}
}

func checkArchive(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	comment, rest, _ := strings.Cut(string(text), "-- objects --\n")
	objects, _, _ := strings.Cut(rest, "-- ")
	base, err := os.ReadFile("testdata/base.yaml")
	if err != nil {
		t.Fatal(err)
	}
	in := read(t, comment, objects, string(base))
	var b bytes.Buffer
	b.WriteString(comment + "-- objects --\n" + objects + "-- get --\n")
	if err := (&Table{Wide: true}).Print(&b, Attachments(in.Input)); err != nil {
		t.Fatal(err)
	}
	if in.Pod != nil {
		b.WriteString("-- explain --\n")
		if err := Explain(in).Text(&b); err != nil {
			t.Fatal(err)
		}
	}
	golden.Check(t, path, trimLines(b.String()))
	checkSound(t, in)
}

// checkSound checks what must be true for every chain.
func checkSound(t *testing.T, in chainInput) {
	if in.Pod == nil {
		return
	}
	c := Explain(in)
	for _, s := range c.Steps {
		toDo := s.State == StepFailed || s.State == StepWaiting
		if toDo != (s.Owner != "") || toDo != (s.Remedy != "") || toDo && s.Detail == "" {
			t.Errorf("step %s: %+v", s.Name, s)
		}
	}
	if (c.Verdict == ChainFailed || c.Verdict == ChainWaiting) != (c.Blocker != nil) {
		t.Errorf("verdict %s with blocker %+v", c.Verdict, c.Blocker)
	}
	reversed := in
	reversed.Slices, reversed.Claims, reversed.Networks = backwards(in.Slices), backwards(in.Claims), backwards(in.Networks)
	reversed.Pods = backwards(in.Pods)
	if diff := cmp.Diff(c, Explain(reversed)); diff != "" {
		t.Errorf("the order of the input matters:\n%s", diff)
	}
	if diff := cmp.Diff(NewList(Attachments(in.Input)), NewList(Attachments(reversed.Input)), cmp.AllowUnexported(Attachment{})); diff != "" {
		t.Errorf("the order of the input matters:\n%s", diff)
	}
}

func backwards[T any](s []T) []T {
	out := slices.Clone(s)
	slices.Reverse(out)
	return out
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// read returns the input of an archive. The pod to explain is named "web".
func read(t *testing.T, comment, objects, base string) chainInput {
	t.Helper()
	in := chainInput{Input: Input{Unread: map[Kind]bool{}}}
	without := map[string]bool{}
	for line := range strings.Lines(comment) {
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && words[0] == "without":
			without[words[1]] = true
		case len(words) == 2 && words[0] == "unread":
			in.Unread[Kind(words[1])] = true
		case len(words) > 0 && words[0] == "drivers":
			in.Drivers = map[string]bool{}
			for _, node := range words[1:] {
				in.Drivers[node] = true
			}
		case len(words) == 1 && words[0] == "no-dra":
			in.NoDRA = true
		case len(words) > 0 && words[0] == "controller":
			in.Installation = &installation.Settings{Controller: &installation.Program{Args: words[1:]}}
		case len(words) > 0 && words[0] == "driver":
			in.Installation = &installation.Settings{Driver: &installation.Program{Args: words[1:]}}
		}
	}
	for _, doc := range strings.Split(objects+"\n---\n"+base, "\n---\n") {
		var meta metav1.PartialObjectMetadata
		if err := yaml.Unmarshal([]byte(doc), &meta); err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		name := meta.Kind + "/" + meta.Name
		if meta.Kind == "" || without[name] {
			continue
		}
		without[name] = true
		in.add(t, meta.Kind, []byte(doc))
	}
	return in
}

func (in *chainInput) add(t *testing.T, kind string, doc []byte) {
	t.Helper()
	switch kind {
	case "Pod":
		pod := decode[corev1.Pod](t, doc)
		in.Pods = append(in.Pods, pod)
		if pod.Name == "web" {
			in.Pod = pod
		}
	case "ResourceClaim":
		in.Claims = append(in.Claims, decode[resourceapi.ResourceClaim](t, doc))
	case "ResourceClaimTemplate":
		in.Templates = append(in.Templates, decode[resourceapi.ResourceClaimTemplate](t, doc))
	case "ResourceSlice":
		in.Slices = append(in.Slices, decode[resourceapi.ResourceSlice](t, doc))
	case "DeviceClass":
		in.Classes = append(in.Classes, decode[resourceapi.DeviceClass](t, doc))
	case "NetworkAttachmentDefinition":
		in.Networks = append(in.Networks, decode[nadv1.NetworkAttachmentDefinition](t, doc))
	case "Node":
		in.Nodes = append(in.Nodes, decode[corev1.Node](t, doc))
	case "Namespace":
		in.Namespace = decode[corev1.Namespace](t, doc)
	case "Event":
		in.Events = append(in.Events, decode[corev1.Event](t, doc))
	default:
		t.Fatalf("kind %s is not known", kind)
	}
}

func decode[T any](t *testing.T, doc []byte) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict(doc, out); err != nil {
		t.Fatalf("%v:\n%s", err, doc)
	}
	return out
}
