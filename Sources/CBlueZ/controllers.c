#include "CBlueZ.h"

#include <bluetooth/bluetooth.h>
#include <bluetooth/hci.h>
#include <bluetooth/hci_lib.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int cbz_controllers(cbz_controller *list, int capacity) {
    int hci = socket(AF_BLUETOOTH, SOCK_RAW | SOCK_CLOEXEC, BTPROTO_HCI);
    if (hci < 0) return -errno;
    struct hci_dev_list_req *request =
        calloc(1, sizeof *request + HCI_MAX_DEV * sizeof(struct hci_dev_req));
    int found = request ? 0 : -ENOMEM;
    if (request) {
        request->dev_num = HCI_MAX_DEV;
        if (ioctl(hci, HCIGETDEVLIST, request) < 0) found = -errno;
    }
    for (int i = 0; found >= 0 && i < request->dev_num && found < capacity; i++) {
        struct hci_dev_info info = {.dev_id = request->dev_req[i].dev_id};
        if (ioctl(hci, HCIGETDEVINFO, &info) < 0) continue;
        list[found].index = info.dev_id;
        list[found].up = hci_test_bit(HCI_UP, &info.flags) != 0;
        ba2str(&info.bdaddr, list[found].address);
        found++;
    }
    free(request);
    close(hci);
    return found;
}
