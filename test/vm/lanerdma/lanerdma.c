// SPDX-License-Identifier: GPL-2.0
/*
 * For the test guest only; it would be wrong on any other machine.
 *
 *   echo "rxe00 0000:01:10.0" > /sys/module/lanerdma/parameters/bind
 *
 * makes a soft RoCE device pass for the RDMA side of a PCI function:
 *  - its folder moves below the function's, where programs look for it;
 *  - it may change its network namespace, which the RDMA core allows only to
 *    drivers that can cut off their users. Soft RoCE cannot, and nobody uses
 *    the devices of the guest, so an empty function says that it can.
 */
#include <linux/module.h>
#include <linux/pci.h>
#include <rdma/ib_verbs.h>

static void cut_off_nobody(struct ib_ucontext *context)
{
}

static int bind_set(const char *value, const struct kernel_param *param)
{
	unsigned int domain, bus, slot, function;
	struct ib_device *device;
	struct pci_dev *pci;
	char name[64];
	int err;

	if (sscanf(value, "%63s %x:%x:%x.%x", name, &domain, &bus, &slot, &function) != 5)
		return -EINVAL;
	device = ib_device_get_by_name(name, RDMA_DRIVER_UNKNOWN);
	if (!device)
		return -ENODEV;
	pci = pci_get_domain_bus_and_slot(domain, bus, PCI_DEVFN(slot, function));
	if (pci) {
		if (!device->ops.disassociate_ucontext)
			device->ops.disassociate_ucontext = cut_off_nobody;
		err = device_move(&device->dev, &pci->dev, DPM_ORDER_NONE);
		pci_dev_put(pci);
	} else {
		err = -ENXIO;
	}
	ib_device_put(device);
	return err;
}

static const struct kernel_param_ops bind_ops = { .set = bind_set };
module_param_cb(bind, &bind_ops, NULL, 0200);

static int __init lanerdma_init(void)
{
	return 0;
}
module_init(lanerdma_init);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("test guest: soft RoCE as the RDMA side of a PCI function");
