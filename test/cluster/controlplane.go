package cluster

import (
	"context"
	"path/filepath"
	"strings"
)

// The components of the control plane.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
)

const controlPlaneName = "control-plane"

// newControlPlane describes the machine of the control plane, which is no node of the
// cluster.
func (c *Cluster) newControlPlane() *Machine {
	m := c.newMachine(controlPlaneName)
	m.components = []component{
		c.etcd(m),
		c.apiServer(m),
		c.controllerManager(m),
		c.scheduler(m),
	}
	return m
}

func (c *Cluster) etcd(m *Machine) component {
	return m.program(c.artifacts.Kubernetes, Etcd,
		// The data need not survive, so etcd does not wait for the disk.
		"--unsafe-no-fsync",
		"--data-dir="+filepath.Join(m.folder, "etcd"),
		"--log-level=warn",
	)
}

func (c *Cluster) apiServer(m *Machine) component {
	all := c.options.families()
	p := m.program(c.artifacts.Kubernetes, APIServer,
		"--etcd-servers=http://127.0.0.1:2379",
		"--bind-address="+all.anyAddress(),
		"--secure-port=443", // also that of the service, without kube-proxy
		"--advertise-address="+all[0].controlPlane,
		"--service-cluster-ip-range="+all.joined(func(f family) string { return f.serviceCIDR }),
		"--tls-cert-file="+c.secrets.path(certificateFile),
		"--tls-private-key-file="+c.secrets.path(certificateKey),
		"--cert-dir="+string(c.secrets),
		"--token-auth-file="+c.secrets.path(tokenFile),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--admission-control-config-file="+c.secrets.path(admissionFile),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+c.secrets.path(accountKey),
		"--service-account-signing-key-file="+c.secrets.path(accountKey),
		"--allow-privileged=true",
		// The API server calls admission webhooks at their pods, because without kube-proxy
		// the addresses of services lead nowhere.
		"--enable-aggregator-routing=true",
		// Node names are not in DNS.
		"--kubelet-preferred-address-types=InternalIP",
	)
	p.args = append(append(p.args, c.options.versionArgs()...), c.options.APIServerArgs...)
	p.check = func(ctx context.Context) error { return c.get(ctx, "/readyz", nil) }
	return p
}

func (c *Cluster) controllerManager(m *Machine) component {
	args := append(c.clientArgs(ControllerManager),
		"--kube-api-qps=200",
		"--kube-api-burst=400",
		"--node-monitor-period=1s",
		"--service-account-private-key-file="+c.secrets.path(accountKey),
		"--root-ca-file="+c.secrets.path(certificateFile),
		// The default is below /usr of the real machine.
		"--flex-volume-plugin-dir="+filepath.Join(m.folder, "volume-plugins"),
	)
	return m.program(c.artifacts.Kubernetes, ControllerManager, append(args, c.options.ControllerManagerArgs...)...)
}

func (c *Cluster) scheduler(m *Machine) component {
	return m.program(c.artifacts.Kubernetes, Scheduler, append(c.clientArgs(Scheduler), c.options.SchedulerArgs...)...)
}

// clientArgs returns the common arguments of components that are clients of the API server.
func (c *Cluster) clientArgs(user string) []string {
	kubeconfig := c.secrets.kubeconfig(user)
	return append([]string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		"--cert-dir=" + string(c.secrets),
	}, c.options.versionArgs()...)
}

// program describes a component that is a program from a cache folder.
func (m *Machine) program(folder, name string, args ...string) component {
	return component{name: name, path: filepath.Join(folder, name), args: args}
}

// newMachine describes a machine without components.
func (c *Cluster) newMachine(name string) *Machine {
	programs := strings.Join(c.artifacts.programFolders(), ":")
	return &Machine{
		logs:  filepath.Join(c.LogDir(), name),
		group: c.group + cgroup("/"+name),
		namespaces: namespaces{
			name:      name,
			folder:    filepath.Join(c.options.Dir, name),
			artifacts: c.artifacts,
			// Nothing is inherited: every program would use a proxy, for example.
			// Containers do not inherit the first of them.
			env: append(c.options.goSettings(),
				"PATH="+programs+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
				"HOME=/root",
				"KUBECONFIG="+c.Kubeconfig(),
				// The default is a folder of the real machine, in which all clusters
				// would have the same name: that of the API server's address.
				"KUBECACHEDIR="+filepath.Join(c.options.Dir, "kubectl-cache"),
				marker+"="+c.options.Dir,
			),
		},
	}
}

// marker is an environment variable of all processes that a cluster starts outside of
// containers, with its run folder.
const marker = "NADRA_CLUSTER"
