package translate

import (
	"fmt"
	"strings"
	"testing"
)

// many returns manifests with networks and workloads. A tenth of the workloads uses no network.
func many(workloads, networks int) []File {
	var files []File
	var b strings.Builder
	for i := range networks {
		fmt.Fprintf(&b, "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata:\n  name: net%d\n  namespace: ns%d\n"+
			"spec:\n  config: |\n    {\"cniVersion\": \"1.0.0\", \"type\": \"macvlan\", \"master\": \"eth1\", \"ipam\": {\"type\": \"host-local\", \"subnet\": \"10.0.0.0/16\"}}\n", i, i%100)
	}
	files = append(files, File{"networks.yaml", []byte(b.String())})
	for i := range workloads {
		annotation := ""
		if i%10 != 0 {
			n := i % networks
			annotation = fmt.Sprintf("\n      annotations:\n        k8s.v1.cni.cncf.io/networks: '[{\"name\": \"net%d\", \"ips\": [\"10.0.%d.%d/16\"]}, {\"name\": \"net%d\"}]'", n, i/250, i%250, n)
		}
		files = append(files, File{fmt.Sprintf("w%d.yaml", i), fmt.Appendf(nil, workloadText, i, i%100, i, i, annotation)})
	}
	return files
}

const workloadText = `# Made by a generator.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web%d
  namespace: ns%d
spec:
  replicas: 2
  selector:
    matchLabels:
      app: web%d
  template:
    metadata:
      labels:
        app: web%d%s
    spec:
      initContainers:
      - name: wait
        image: registry.example.com/wait:1.0
      containers:
      - name: web
        image: registry.example.com/web:1.0
        env:
        - name: A
          value: "1"
        - name: B
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        resources:
          limits:
            cpu: "1"
            memory: 1Gi
        volumeMounts:
        - name: data
          mountPath: /data
      volumes:
      - name: data
        emptyDir: {}
`

// BenchmarkConvert converts 10,000 workloads with 1,000 networks.
func BenchmarkConvert(b *testing.B) {
	files := many(10_000, 1_000)
	b.ReportAllocs()
	for b.Loop() {
		got := Convert(Input{Files: files})
		changed := 0
		for _, w := range got.Workloads {
			if w.Changed {
				changed++
			}
		}
		if changed != 9_000 {
			b.Fatalf("got %d changed workloads", changed)
		}
	}
}

// BenchmarkPod converts one pod, as the webhook does.
func BenchmarkPod(b *testing.B) {
	o := Options{Namespace: "shop", AllNetworks: true, Lookup: lookup("")}
	b.ReportAllocs()
	for b.Loop() {
		if got, err := Pod([]byte(onePod), o); err != nil || readiness(got.Findings) != Ready {
			b.Fatal(got, err)
		}
	}
}
