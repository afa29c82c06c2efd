package translate

import (
	"strings"
	"testing"
)

// shapeHeads are the beginnings of pods, up to the last container.
var shapeHeads = []string{
	"apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    k8s.v1.cni.cncf.io/networks: lan\nspec:\n  containers:\n  - name: c\n",
	"apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n    k8s.v1.cni.cncf.io/networks: |\n      [\n        {\"name\": \"lan\"}\n      ]\nspec:\n  hostAliases: []\n\n  containers:\n\n  # first\n  - name: c\n\n",
	"apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations: {\n    k8s.v1.cni.cncf.io/networks: '[{\"name\": \"lan\"}]' }\nspec:\n  initContainers:\n  - {name: a}\n  - {name: b, image: c}\n  containers:\n  -\n    name: c\n",
}

// shapeTails are the ends of a container and its pod.
var shapeTails = []string{
	"    args:\n    - |\n      x\n      y",
	"    args:\n    - |-\n      x\n      y",
	"    args:\n    - >\n      x\n      y",
	"    args:\n    - |+\n      x\n\n",
	"    args:\n    - |\n      x\n\n  # c\n",
	"    args: [\"a\",\n           \"b\"]\n",
	"    args: [\n      a,\n      b,\n    ]\n",
	"    args:\n      - -c\n      - >-\n        a\n        b\n",
	"    args:\n    - \"a\n      b\"\n",
	"    args:\n    - 'a\n\n      b'",
	"    command: [\"sh\", \"-c\", \"a\\\n      b\"]\n",
	"    resources:\n      limits:\n        intel.com/vf: '1'\n",
	"    resources:\n      limits: {intel.com/vf: 1, cpu: 2}\n      requests: {intel.com/vf: 1}\n",
	"    resources:\n      requests:\n        intel.com/vf: 1\n      limits:\n        intel.com/vf: 1\n    image: x\n",
	"    resources:\n      limits: &l\n        intel.com/vf: 1\n",
	"    resources: {limits: {intel.com/vf: 1}}\n",
	"    resources:\n        limits:\n            intel.com/vf: 1 # c\n            # d\n",
	"    resources: {}  # none\n",
	"    resources: null\n",
	"    resources: ~\n",
	"    resources:\n",
	"    resources:",
	"    resources: { }\n",
	"    resources: {\n    }\n",
	"    resources: {limits: {}}\n",
	"    env:\n    - name: A\n      value: a\n      # comment\n#end\n",
	"    env: []\n  resourceClaims: []\n",
	"  resourceClaims:\n",
	"  resourceClaims: null # x\n",
	"    resources:\n      limits: {\"intel.com/vf\": \"1\"}\n",
	"    ports: [{containerPort: 80}, {containerPort: 81}]",
	"    volumeMounts:\n      - mountPath: /a\n        name: b\n  volumes:\n    - name: b\n      emptyDir: {}\n  restartPolicy: Never",
	"    args:\n    - a: |\n        b\n  nodeSelector:\n    kubernetes.io/hostname: x\n\n\n\n",
	"    env:\n    - {name: A, value: \"x\"}\n    - {name: B,\n       value: y}\n",
	"    resources:\n      requests: {cpu: 1,\n        intel.com/vf: 1}\n      limits: {\n        intel.com/vf: 1\n      }\n",
	"    image: a:b@sha256:c\n    args: [--x=y, 'it''s', \"q\\\"q\"]\n",
	"    args:\n    - --a\n    # - --b\n    #- --c\n  # tail\n  tolerations:\n  - operator: Exists\n",
	"    args: # c\n    - a\n\n    resources: # d\n      # e\n      limits: # f\n        # g\n        intel.com/vf: 1 # h\n        # i\n      # j\n    # k\n",
	"    args:\n    - |2\n        x\n      y\n",
	"    args:\n    - >+\n      x\n\n",
	"    args:\n    - |\n      \n      x\n",
	"    args:\n    - |\n      x   \n",
	"    args:\n    - |\n\n      x\n    -\n      y\n",
	"    args:\n    -   a\n    -   b: c\n        d: e\n",
	"    x: !!binary |\n      aGVsbG8=\n",
	"    x: 2001-01-01\n",
	"    x: a b  c\n      d\n",
	"    x: [a, [b, {c: d}]]\n",
	"    \"quoted\": 'x'\n    'single': \"y\"\n",
	"    x:\n    - - a\n      - b\n    - - c\n",
	"    args:\n    - |\n      x\n...\n",
	"    x: \"a\\\n      \\ b\"\n",
	"    x: >-\n\n      a\n\n        b\n\n      c\n",
	"    args: ['a', # c\n      'b'] # d\n",
	"    x: a#b\n",
	"    x: a # b\n      # c\n",
	"    x: ''\n",
	"    x: \"\"",
	"    x: |\n",
	"    x: |",
	"    x: >-",
	"    x: |-\n\n\n",
	"    args:\n    - |\n      a\n\n\n    image: x\n",
}

const poolOfShapes = "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata:\n  name: lan\n" +
	"  annotations:\n    k8s.v1.cni.cncf.io/resourceName: intel.com/vf\n---\n"

// TestShapes checks that usual forms of YAML can be edited.
func TestShapes(t *testing.T) {
	for _, head := range shapeHeads {
		for _, tail := range shapeTails {
			text := poolOfShapes + head + tail
			shape(t, text)
			shape(t, strings.ReplaceAll(text, "\n", "\r\n"))
		}
	}
}

func shape(t *testing.T, text string) {
	t.Helper()
	for _, drop := range []bool{false, true} {
		in := Input{Files: []File{{"f.yaml", []byte(text)}}, Options: Options{Pools: true, DropAnnotation: drop}}
		got := Convert(in)
		checkParses(t, got)
		checkIdempotent(t, in, got)
		if len(got.Workloads) != 1 || !got.Workloads[0].Changed {
			t.Errorf("%q was not converted: %v", text, got.Findings)
		}
	}
}
