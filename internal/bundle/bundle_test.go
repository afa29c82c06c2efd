package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
)

const planted = "hunter2-XyZ"

// Names and shapes in texts; %s is the secret.
var texts = map[string]string{
	"an assignment":             "password=%s",
	"with blanks":               "ftp_password = correct %s staple",
	"YAML":                      "password: correct %s staple",
	"a weak name":               "pre_auth: %s",
	"camel case":                "wpaKey=%s",
	"capitals":                  "PGPASSWORD=%s",
	"JSON":                      `{"a":1,"password":"x %s","b":2}`,
	"JSON, a number beside":     `{"pin":%s,"b":2}`,
	"JSON, an object":           `{"auth":{"user":"}","pass":["%s"]}}`,
	"JSON, spaced":              `{"secret value" : "%s"}`,
	"JSON in JSON":              `msg="conf: {\"token\":\"a\\\"b %s\"}" x=1`,
	"JSON in JSON in JSON":      `"{\"a\":\"{\\\"token\\\":\\\"%s\\\"}\"}"`,
	"a letter as a code":        `{"pass\u0077ord":"%s"}`,
	"a quote that closes early": `password='a'"%s"`,
	"a quote that is not":       `password="%s and more`,
	"over lines":                "password: \"first\nsecond %s\"",
	"a YAML block":              "a:\n  password: |\n    one\n\n    %s\n  b: 1",
	"a YAML map":                "auth:\n  user: %s\nb: 1",
	"a YAML list":               "tokens:\n- a\n- %s\nb: 1",
	"CNI_ARGS":                  "IgnoreUnknown=1;PASSWORD=%s;K8S_POD_NAME=a",
	"a query":                   "GET https://a.example/?token=%s&x=1",
	"a Go struct":               "{User:a Password:%s}",
	"an index":                  "secrets[0]=%s",
	"a flag":                    "run --auth-key %s -v",
	"a flag, quoted":            `run --password "a %s"`,
	"a flag with a sign":        "run --password=%s",
	"bearer":                    "Authorization: Bearer %s",
	"bearer alone":              "sent bearer %s",
	"basic":                     "authorization: Basic %s",
	"an URL":                    "at https://user:pa/ss@%s@host.example/path",
	"an URL in JSON":            `"https:\/\/user:%s@host.example"`,
	"a JWT":                     "got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI%s.sig",
	"a known prefix":            "ghp_%sabcdefgh",
	"PEM":                       "x\n-----BEGIN RSA PRIVATE KEY-----\nMII%s\n-----END RSA PRIVATE KEY-----\ny",
	"PEM on one line":           `key is -----BEGIN EC PRIVATE KEY-----\nMII%s\n-----END EC PRIVATE KEY-----\n`,
	"PEM without its end":       "-----BEGIN CERTIFICATE-----\nMII%s",
	"PEM without its beginning": "MIIabc\n+/hunter2XyZ\n-----END CERTIFICATE-----",
	"PEM in base64":             "ca: LS0tLS1CRUdJTiBDRVJU%s",
	"a name behind open quotes": `key="abc password="%s"`,
	"two that overlap":          `token: key="%s"`,
}

func TestText(t *testing.T) {
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			r := NewRedactor()
			got := r.Text("before:\n" + strings.ReplaceAll(text, "%s", planted) + "\n")
			if strings.Contains(got, planted) || strings.Contains(got, "hunter2XyZ") {
				t.Errorf("the secret is left: %s", got)
			}
			if !strings.Contains(got, Mark) || !strings.HasPrefix(got, "before:") || len(r.Counts) == 0 {
				t.Errorf("counted %v in %s", r.Counts, got)
			}
		})
	}
}

// TestTextKeeps checks that harmless text is kept.
func TestTextKeeps(t *testing.T) {
	for _, text := range []string{
		`I1122 "Attached" pod="shop/web" network="shop/blue" duration="12ms"`,
		"plugin type=\"macvlan\" failed (add): Link not found",
		"docker.io/library/nginx@sha256:0123",
		"http://10.0.0.1:8080/metrics: connection refused",
		"monkey: business",
		"the bypass=1",
	} {
		r := NewRedactor()
		if got := r.Text(text); got != text || len(r.Counts) > 0 {
			t.Errorf("%q became %q", text, got)
		}
	}
	const refused = "tls: failed to verify certificate: x509: certificate signed by unknown authority\nnext"
	if got := NewRedactor().Text(refused); !strings.Contains(got, "signed by unknown authority\nnext") {
		t.Errorf("%q", got)
	}
}

// TestValue redacts objects, in which some names of Kubernetes are not credentials.
func TestValue(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"a configuration": {
			`{"spec":{"config":"{\"type\":\"x\",\"ipam\":{\"password\":\"hunter2-XyZ\",\"subnet\":\"10.0.0.0/8\"}}"}}`,
			`{"spec":{"config":"{\"ipam\":{\"password\":\"[redacted]\",\"subnet\":\"10.0.0.0/8\"},\"type\":\"x\"}"}}`,
		},
		"twice the same name": {`{"config":"{\"token\":\"hunter2-XyZ\",\"token\":true}"}`, `{"config":"{\"token\":true}"}`},
		"cni-args":            {`{"cni-args":{"key":"hunter2-XyZ","operator":"In","a":"b"}}`, `{"cni-args":{"a":"b","key":"[redacted]","operator":"In"}}`},
		"cni-args as text":    {`{"parameters":{"args":"A=b;PASSWORD=hunter2-XyZ"}}`, `{"parameters":{"args":"A=b;PASSWORD=[redacted]"}}`},
		"Kubernetes' names":   {`{"tolerations":[{"key":"a","operator":"Exists"}],"secretName":"x"}`, `{"secretName":"x","tolerations":[{"key":"a","operator":"Exists"}]}`},
		"the same below data": {`{"data":{"key":"hunter2-XyZ"}}`, `{"data":{"key":"[redacted]"}}`},
		"name and value":      {`{"env":[{"name":"DB_PASSWORD","value":"hunter2-XyZ"}]}`, `{"env":[{"name":"DB_PASSWORD","value":"[redacted]"}]}`},
		"behind a flag":       {`{"args":["--token","hunter2-XyZ","--v=2"]}`, `{"args":["--token","[redacted]","--v=2"]}`},
		"lists and numbers":   {`{"passwords":["hunter2-XyZ"],"pin":1234}`, `{"passwords":"[redacted]","pin":"[redacted]"}`},
		"nothing to hide":     {`{"password":"","token":null,"auth":false}`, `{"auth":false,"password":"","token":null}`},
		"a name":              {`{"https://u:hunter2-XyZ@h":1}`, `{"https://[redacted]@h":1}`},
		"dropped":             {`{"metadata":{"managedFields":[1],"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"x","a":"b"}}}`, `{"metadata":{"annotations":{"a":"b"}}}`},
		"a webhook":           {`{"webhooks":[{"clientConfig":{"caBundle":"aHVudGVyMi1YeVo="}},{"clientConfig":{"caBundle":""}}]}`, `{"webhooks":[{"clientConfig":{"caBundle":"[redacted]"}},{"clientConfig":{"caBundle":""}}]}`},
		"large numbers":       {`{"n":12345678901234567890}`, `{"n":12345678901234567890}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := NewRedactor().Value(json.RawMessage(c.in))
			if err != nil {
				t.Fatal(err)
			}
			text, err := encode(got, "")
			if err != nil || strings.TrimSpace(string(text)) != c.want {
				t.Errorf("%s (%v), want %s", text, err, c.want)
			}
		})
	}
}

func members(t *testing.T, b *Bundle) (map[string]string, []byte) {
	t.Helper()
	var raw bytes.Buffer
	if _, err := b.Write(&raw); err != nil {
		t.Fatal(err)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(raw.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for archive := tar.NewReader(zipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out, raw.Bytes()
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(h.Name, Folder)] = string(text)
	}
}

const aPod = `{"kind":"Pod","metadata":{"name":"web","annotations":{"k8s.v1.cni.cncf.io/networks":"[{\"name\":\"blue\",\"cni-args\":{\"psk\":\"hunter2-XyZ\"}}]","vault":"hunter2-XyZ"}},
"spec":{"nodeName":"n1","volumes":[{"name":"v","configMap":{"name":"hunter2-XyZ"}}],"containers":[{"name":"a","image":"i","env":[{"name":"X","value":"hunter2-XyZ"}],"args":["hunter2-XyZ"],"command":["hunter2-XyZ"]}]},
"status":{"phase":"Running","containerStatuses":[{"name":"a","lastState":{"terminated":{"exitCode":1,"message":"hunter2-XyZ"}}}]}}`

func sample(t *testing.T, hide, backwards bool) *Bundle {
	t.Helper()
	b := &Bundle{Head: Head{Client: "v1", HiddenAddresses: hide, Nodes: []string{"ip-10-0-0-7"}}}
	objects := func(texts ...string) []map[string]any {
		var out []map[string]any
		for _, text := range texts {
			var o map[string]any
			if err := json.Unmarshal([]byte(text), &o); err != nil {
				t.Fatal(err)
			}
			out = append(out, o)
		}
		return out
	}
	steps := []func() error{
		func() error { return b.AddObjects("objects/pods.json", "pods", objects(aPod)) },
		func() error {
			return b.AddObjects("objects/nads.json", "networks", objects(`{"kind":"NetworkAttachmentDefinition","spec":{"config":"{\"my hunter2-XyZ"}}`))
		},
		func() error {
			return b.AddObjects("objects/own.json", "nadra", objects(`{"kind":"DaemonSet","spec":{"template":{"spec":{"containers":[{"env":[{"name":"A","value":"hunter2-XyZ"}],"args":["--host-root=/host"]}]}}}}`))
		},
		func() error {
			b.AddText("logs/a.log", "a log", "from 10.0.0.1:80 and fe80::1: token=hunter2-XyZ\n", "")
			return nil
		},
		func() error {
			b.AddText("logs/b.log", "another", "10.0.0.1 is 02:00:00:00:00:0A, not 10.0.0.2\n", "cut")
			return nil
		},
		func() error { b.AddGap("metrics", "forbidden: token=hunter2-XyZ", "a right"); return nil },
		func() error { b.AddGap("logs", "no", ""); return nil },
	}
	if backwards {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func TestArchive(t *testing.T) {
	files, raw := members(t, sample(t, false, false))
	for name, text := range files {
		if strings.Contains(text, planted) {
			t.Errorf("%s has the secret:\n%s", name, text)
		}
	}
	want := []string{"README.md", "index.json", "logs/a.log", "logs/b.log", "objects/nads.json", "objects/own.json", "objects/pods.json"}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("files %q", got)
	}
	for file, part := range map[string]string{
		"objects/pods.json": `"is": "configMap"`, "objects/own.json": "--host-root=/host", "objects/nads.json": "bytes that are not JSON",
		"README.md": "- metrics: forbidden: token=[redacted]; needs a right", "logs/a.log": "10.0.0.1:80",
	} {
		if !strings.Contains(files[file], part) {
			t.Errorf("%s lacks %q:\n%s", file, part, files[file])
		}
	}
	var index Index
	if err := json.Unmarshal([]byte(files["index.json"]), &index); err != nil {
		t.Fatal(err)
	}
	if index.Redacted[credential] != 2 || index.Redacted[environment] != 1 || index.Redacted[unreadable] != 1 || len(index.Gaps) != 2 || index.Files[1].Cut != "cut" {
		t.Errorf("index %+v", index)
	}
	if _, other := members(t, sample(t, false, true)); !bytes.Equal(raw, other) {
		t.Error("the order in which things are added changes the archive")
	}
}

func TestHideAddresses(t *testing.T) {
	files, _ := members(t, sample(t, true, false))
	if got, want := files["logs/a.log"]+files["logs/b.log"], "from ipv4-1:80 and ipv6-1: token=[redacted]\nipv4-1 is mac-1, not ipv4-2\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !strings.Contains(files["index.json"], "ip-ipv4-3") {
		t.Errorf("a node's name has its address: %s", files["index.json"])
	}
	for _, text := range []string{"12:34:56", "0000:00:02.0", "a:b", "127.0.0.1", "::1", "v1.36.3", "2026-11-22T10:11:12Z"} {
		if got := newPseudonyms().hide(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	for text, want := range map[string]string{
		`"\n10.1.2.3/24"`: `"\nipv4-1/24"`, "::ffff:10.1.2.3": "ipv4-1", "[2001:db8::5]:443": "[ipv6-1]:443",
		"addr:10.1.2.3": "addr:ipv4-1", "at:fe80::1:": "at:ipv6-1:", "[1:2:3:4:5:6:7:8]": "[ipv6-1]", strings.Repeat(":", 60) + " fe80::2": strings.Repeat(":", 60) + " ipv6-1", "80:00:00:48:fe:80:00:00:00:00:00:00:00:11:22:33:44:55:66:77": "mac-1",
	} {
		if got := newPseudonyms().hide(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// FuzzRedact checks that a planted secret is redacted in texts and configurations, whatever is
// around it.
func FuzzRedact(f *testing.F) {
	names := slices.Sorted(maps.Keys(texts))
	for i := range names {
		f.Add(uint(i), `key="a`, `" b`)
	}
	f.Add(uint(3), "{\"auth\":[{", "-----BEGIN")
	f.Add(uint(0), "password: |\n  a", "\\")
	const secret = "Pl4ntedS3cret"
	f.Fuzz(func(t *testing.T, which uint, before, after string) {
		if strings.Contains(before+after, secret) {
			t.Skip()
		}
		text := strings.ReplaceAll(texts[names[which%uint(len(names))]], "%s", secret)
		r := NewRedactor()
		if got := r.Text(before + "\n" + text + "\n" + after); strings.Contains(got, secret) {
			t.Errorf("a text has it: %q", got)
		}
		config, err := json.Marshal(map[string]any{"type": before, after: after, "password": secret, "x": map[string]any{"apiKey": []string{before, secret}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range []string{string(config), before + string(config), string(config[:len(config)-1]) + after} {
			nad := object{"kind": "NetworkAttachmentDefinition", "spec": object{"config": spec}}
			got, err := r.Value(r.reduce(nad))
			if err != nil {
				t.Fatal(err)
			}
			out, err := encode(got, "")
			if err != nil || strings.Contains(string(out), secret) {
				t.Errorf("a configuration has it: %s (%v)", out, err)
			}
		}
	})
}
