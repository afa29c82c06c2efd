package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/bounded"
)

// secrets are credentials as people name and write them. The archive must have none of them,
// wherever they stand.
var secrets = []struct{ key, value string }{
	{"password", "hunter2-XyZ"},
	{"passwd", "correct-horse"},
	{"pw", "geheim"},
	{"pwd", "Ge-heim.1"},
	{"pass", "opensesame"},
	{"passphrase", "battery staple"},
	{"secret", "s3cr3t/+="},
	{"clientSecret", "0f1e2d3c4b"},
	{"token", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"},
	{"apiKey", "AKIAIOSFODNN7EXAMPLE"},
	{"api_key", "sk-live-4242"},
	{"accessKey", "wJalrXUtnFEMI"},
	{"auth", "Basic dXNlcjpwYXNz"},
	{"authorization", "Bearer abc.def.ghi"},
	{"jwt", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"},
	{"bearer", "sha256~Zm9vYmFy"},
	{"cookie", "SID=31d4d96e407aad42"},
	{"dsn", "postgres://ipam:Tr0ub4dor@db/ipam"},
	{"url", "https://user:pa55@controller.example/api"},
	{"connection", "Server=db;Pwd=Zebra7;"},
	{"cak", "00112233445566778899aabbccddeeff"},
	{"ckn", "6162636465666768"},
	{"bgpMD5", "md5-of-the-peer"},
	{"ospfKey", "area0area0"},
	{"radius_shared", "testing123"},
	{"tacacsSecret", "tac4csKey"},
	{"wgPriv", "yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk="},
	{"psk", "wpa-psk-home"},
	{"presharedKey", "FpCyhws9cxwWoV4xELtfJvjJN"},
	{"ikeId", "vpn-shared-thing"},
	{"snmpCommunity", "n0t-public"},
	{"community", "public-not"},
	{"pin", "84620174"},
	{"otp", "73519264"},
	{"seed", "JBSWY3DPEHPK3PXP"},
	{"license", "XXXX-YYYY-ZZZZ-1"},
	{"macsec", "deadbeefcafe0123"},
	{"eapIdentity", "alice@example"},
	{"kubeconfig", "apiVersion: v1\nusers: [{user: {token: kubeT0ken}}]"},
	{"tlsKey", "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----"},
	{"certificate", "-----BEGIN CERTIFICATE-----\nMIIDdz\n-----END CERTIFICATE-----"},
	{"caBundle", "LS0tLS1CRUdJTiBDRVJU"},
	{"keytab", "BQIAAABHAAIAB0VYQU1QTEU"},
	{"sshKey", "AAAAB3NzaC1yc2EAAAADAQABAAAB"},
	{"vault", "hvs.CAESIJ"},
	{"webhook", "https://hooks.example/T00/B00/XXX24"},
	{"x", "just-a-word"},
	{"note", "the combination is twelve left"},
	{"Schlüssel", "Öffne-dich"},
	{"", "under an empty name"},
}

// parsed returns an object of JSON.
func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}

// quote returns a text as a JSON string.
func quote(t *testing.T, text any) string {
	t.Helper()
	out, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// plant fills an archive with a secret in every place where users and plugins can write. As the
// name of a field, it is there, too.
func plant(t *testing.T, key, value string) *Bundle {
	t.Helper()
	k, v := quote(t, key), quote(t, value)
	both := k + ":" + v + "," + v + ":1"
	plugin := `{"type":"macvlan","master":"eth1","ipam":{"type":"host-local","subnet":"10.1.0.0/24",` + both + `,"routes":[{"dst":"0.0.0.0/0",` + both + `}]},
		"args":{"cni":{` + both + `}},"runtimeConfig":{` + both + `,"ips":[` + v + `]},"capabilities":{"ips":true,` + both + `},"sysctl":{"net.` + strings.Trim(v, `"`) + `":` + v + `},
		"a":{"b":[{"c":{"d":[[{` + both + `}]]}}]},"bridge":{` + both + `},"mtu":[` + v + `],"logFile":` + v + `,"vlan":` + quote(t, "="+value) + `,` + both + `}`
	list := `{"cniVersion":"1.0.0","name":"blue","plugins":[` + plugin + `,{"type":"tuning",` + both + `}],` + both + `}`
	meta := `"metadata":{"name":"web","labels":{"app":` + v + `,` + both + `},"annotations":{` + both + `,"kubectl.kubernetes.io/last-applied-configuration":` + v +
		`,"k8s.v1.cni.cncf.io/networks":` + quote(t, `[{"name":"blue","cni-args":{`+both+`},`+both+`}]`) + `,"k8s.v1.cni.cncf.io/network-status":` + quote(t, `[{"name":"shop/blue","dns":{`+both+`},`+both+`}]`) +
		`,"nadra.dev/networks":` + quote(t, "blue?"+value) + `},"managedFields":[` + v + `]}`
	container := `{"name":"a","image":"nginx:1","env":[{"name":` + k + `,"value":` + v + `}],"command":["run",` + v + `],"args":[` + v + `,` + quote(t, "--"+key+"="+value) + `,` + quote(t, "--v="+value+"=") + `,` + quote(t, "--"+value) + `]}`
	parameters := `{"driver":"net.nadra.dev","parameters":{"kind":"AttachmentConfig","network":{"name":"blue",` + both + `},"cniArgs":{` + both + `},` + both + `}}`
	status := `{"conditions":[{"type":"Ready","status":"False","reason":"MasterMissing","message":` + v + `}],"phase":"Running","message":` + v + `,
		"containerStatuses":[{"name":"a","lastState":{"terminated":{"exitCode":1,"message":` + v + `}}}],"devices":[{"device":"d","data":{` + both + `},"conditions":[{"type":"Ready","message":` + v + `}]}]}`
	b := &Bundle{}
	add := func(kind, rest string) {
		if err := b.addObjects("objects/"+kind+fmt.Sprint(len(b.files))+".json", "objects", []map[string]any{parsed(t, `{"apiVersion":"v1","kind":"`+kind+`",`+rest+`}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, config := range []string{plugin, list, list[:len(list)-1], key + ": " + value, value, "[" + list + "]"} {
		add("NetworkAttachmentDefinition", meta+`,"spec":{"config":`+quote(t, config)+`,`+both+`}`)
	}
	for _, kind := range []string{"DaemonSet", "Deployment"} {
		add(kind, meta+`,"spec":{"template":{`+meta+`,"spec":{"containers":[`+container+`],"volumes":[{"name":"v","configMap":{"name":`+v+`}}]}}},"status":`+status)
	}
	add("Pod", meta+`,"spec":{"nodeName":"n1","containers":[`+container+`],"nodeSelector":{`+both+`},"affinity":{`+both+`}},"status":`+status)
	add("ResourceClaim", meta+`,"spec":{"devices":{"config":[{"opaque":`+parameters+`}],"requests":[{"name":"a","exactly":{"selectors":[{"cel":{"expression":`+v+`}}]}}]}},"status":`+status)
	add("ResourceClaimTemplate", meta+`,"spec":{"spec":{"devices":{"config":[{"opaque":`+parameters+`}]}}}`)
	add("DeviceClass", meta+`,"spec":{"config":[{"opaque":`+parameters+`}]}`)
	add("ResourceSlice", meta+`,"spec":{"devices":[{"name":"d","attributes":{"n_o":{"string":`+v+`},`+k+`:{"string":`+v+`}}}]}`)
	add("Event", meta+`,"reason":"Failed","message":`+quote(t, "attaching: [MasterMissing] "+key+" = "+value+": Link not found"))
	for _, data := range []string{"config.json", "config.yaml", key} {
		add("ConfigMap", meta+`,"data":{`+quote(t, data)+`:`+quote(t, `{"resourceList":[{"resourceName":"a",`+both+`,"selectors":[{`+both+`}]}],`+both+`}`)+`,"other.yaml":`+quote(t, key+": "+value)+`}`)
	}
	add("MutatingWebhookConfiguration", meta+`,"webhooks":[{"name":"pods.nadra.dev","clientConfig":{"caBundle":`+v+`,"url":`+v+`},"matchConditions":[{"name":"a","expression":`+v+`}]}]`)
	for kind, value := range map[string]string{
		"Capabilities": `{"nodes":[{"name":"n1","labels":{` + both + `},"probe":{"errors":[` + v + `],"pods":[{"uid":"u","containers":[{"id":"c","env":{` + both + `}}]}]}}],"nadra":{"args":["--v=2",` + v + `]},"gaps":[{"part":"nodes","reason":` + v + `}]}`,
		"Attachments":  `{"items":[{"pod":"web","state":"Failed","reason":"MasterMissing","message":` + v + `,"notes":[` + v + `],` + both + `}]}`,
		"Upgrade":      `{"plan":{"waves":[{"name":"wave-1","nodes":[{"name":"n1"}]}]},"state":{"nodes":{"n1":{"step":"cordon",` + both + `}},"settings":{"beforeWave":{"exec":` + v + `}},"reason":` + v + `}}`,
	} {
		if err := b.AddValue(kind+".json", kind, kind, parsed(t, value)); err != nil {
			t.Fatal(err)
		}
	}
	head := "I1122 10:11:12.000000       1 attach.go:12] "
	b.addLog("a.log", "a log", strings.Join([]string{
		head + `"Attached" pod="shop/web" err=` + v + ` ` + key + `=` + v, head + `"Attached" err=<`, "\t" + value, " > pod=" + v + " network=\"shop/blue\"", head + `"Attached" pod="shop/web" ` + key + "=" + value,
		head + value, head + `"` + value + `=" pod="` + "\\" + `"` + v, head + `"Attached" pods=["` + value + `=" "b"]`, value, key + "=" + value, `{"msg":` + v + `}`, "panic: " + value, "main.attach(" + v + ")", "main.attach({0xc000, 0x4})", strings.Replace(head, "attach.go", ofLibrary, 1) + v,
	}, "\n"), "")
	b.addMetrics("a.prom", "metrics", "nadra_devices{"+strings.ReplaceAll(key, " ", "")+"="+v+",node=\"n1\",plugin="+quote(t, "="+value)+"} 3\n# HELP "+value+"\n"+value+" 1\nother{node="+v+"} 1\n", "")
	b.addGap("metrics", "reading: "+value, "a right")
	return b
}

// TestLibraryLogsHaveTheirFile checks that the file by whose name lines of the runtime's library are reduced has their
// logger.
func TestLibraryLogsHaveTheirFile(t *testing.T) {
	source, err := os.ReadFile("../../../pkg/driver/" + ofLibrary)
	if err != nil || !strings.Contains(string(source), "func (l nriLogger) Infof(") {
		t.Errorf("%s of the driver has no logger of the library: %v", ofLibrary, err)
	}
}

// TestNoSecret plants each of the secrets everywhere, and looks for it in the archive.
func TestNoSecret(t *testing.T) {
	if len(secrets) < 42 {
		t.Fatalf("only %d secrets", len(secrets))
	}
	for _, s := range secrets {
		t.Run(s.key, func(t *testing.T) {
			files, _ := members(t, plant(t, s.key, s.value))
			if len(files) < 20 {
				t.Errorf("only %d files", len(files))
			}
			parts := append(strings.FieldsFunc(s.value, func(c rune) bool { return strings.ContainsRune(" \n/@:=", c) }), s.value)
			for name, text := range files {
				for _, part := range parts {
					if len(part) > 5 && strings.Contains(text, part) && !strings.Contains("apiVersion Server Bearer alice example postgres https: controller.example ", part) {
						t.Errorf("%s has %q of the secret:\n%s", name, part, text)
					}
				}
			}
		})
	}
}

// TestUseful checks what a supporter needs, in an archive with secrets.
func TestUseful(t *testing.T) {
	files, _ := members(t, plant(t, "dsn", "pg://a:b@c"))
	all := strings.Join(slices.Sorted(maps.Values(files)), "\n")
	for _, part := range []string{
		`\"type\":\"macvlan\"`, `\"master\":\"eth1\"`, `\"subnet\":\"10.1.0.0/24\"`, `\"dst\":\"0.0.0.0/0\"`, `\"ips\":true`, `\"[redacted]\":\"`, `\"name\":\"blue\"`,
		`"image": "nginx:1"`, `"--v=2"`, `"reason": "MasterMissing"`, "with: MasterMissing, Link not found]", `"exitCode": 1`, `\"resourceName\":\"a\"`, `"step": "cordon"`, `"wave-1"`,
		`attach.go:12] "Attached" pod="shop/web" err="[redacted`, "main.attach(…)", `nadra_devices{node="n1",plugin="[redacted: string of 11 bytes]"} 3`, "- metrics: [redacted: string of 19 bytes]; needs a right",
	} {
		if !strings.Contains(all, part) {
			t.Errorf("the archive lacks %s", part)
		}
	}
	if t.Failed() {
		t.Log(all)
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

// TestArchive checks that the order of adding does not matter, and the index.
func TestArchive(t *testing.T) {
	sample := func(backwards bool) *Bundle {
		b := &Bundle{Head: Head{Client: "v1"}}
		steps := []func(){
			func() { b.addLog("logs/a.log", "a log", "what is this\n", "") },
			func() { b.addLog("logs/b.log", "another", "permission denied\n", "cut") },
			func() { b.addGap("metrics", "not allowed to read it", "a right") },
			func() { b.addGap("logs", "no", "") },
		}
		if backwards {
			slices.Reverse(steps)
		}
		for _, step := range steps {
			step()
		}
		return b
	}
	files, raw := members(t, sample(false))
	if got, want := slices.Sorted(maps.Keys(files)), []string{"README.md", "index.json", "logs/a.log", "logs/b.log"}; !slices.Equal(got, want) {
		t.Errorf("files %q", got)
	}
	if files["logs/b.log"] != "permission denied\n" || !strings.Contains(files["README.md"], "- metrics: not allowed to read it; needs a right") {
		t.Errorf("%q, %s", files["logs/b.log"], files["README.md"])
	}
	var index Index
	if err := json.Unmarshal([]byte(files["index.json"]), &index); err != nil {
		t.Fatal(err)
	}
	if index.Redacted[prose] != 1 || len(index.Gaps) != 2 || index.Files[1].Cut != "cut" {
		t.Errorf("index %+v", index)
	}
	if _, other := members(t, sample(true)); !bytes.Equal(raw, other) {
		t.Error("the order in which things are added changes the archive")
	}
}

// TestFields checks that fields.yaml has no rule that nobody knows.
func TestFields(t *testing.T) {
	own := []string{"text", "flags", "size", "names"}
	var check func(path string, r *rule)
	check = func(path string, r *rule) {
		if r.fields == nil && shapes[r.shape] == nil && !slices.Contains(own, r.shape) {
			t.Errorf("%s has the rule %q", path, r.shape)
		}
		for name, inner := range r.fields {
			check(path+"."+name, inner)
		}
	}
	check("", newReducer().allowed)
	if _, err := newReducer().value("Secret", map[string]any{}); err == nil {
		t.Error("a kind that is not listed is taken")
	}
}

func TestHideAddresses(t *testing.T) {
	p := newPseudonyms()
	got := p.hide("from 10.0.0.1:80 and fe80::1\n") + p.hide("10.0.0.1 is 02:00:00:00:00:0A, not 10.0.0.2 of ip-10-0-0-7\n")
	if want := "from ipv4-1:80 and ipv6-1\nipv4-1 is mac-1, not ipv4-3 of ip-ipv4-2\n"; got != want {
		t.Errorf("%q, want %q", got, want)
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

// FuzzNoSecret checks that a secret is left out whatever is around it.
func FuzzNoSecret(f *testing.F) {
	f.Add("auth", "-----BEGIN", `{"a":`)
	f.Add("a\nb", `"`, "\\")
	const secret = "Pl4nted=S3cret"
	f.Fuzz(func(t *testing.T, key, before, after string) {
		bounded.Run(t, len(key)+len(before)+len(after), func() {
			if strings.Contains(key+before+after, "Pl4nted") {
				t.Skip()
			}
			files, _ := members(t, plant(t, key, before+secret+after))
			for name, text := range files {
				if strings.Contains(text, secret) {
					t.Errorf("%s has it: %s", name, text)
				}
			}
		})
	})
}
