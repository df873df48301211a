// The radio-reset helper: takes a Bluetooth controller down and up again, and nothing else.
//
// The gateway's daemon has no privilege; this program has CAP_NET_ADMIN. systemd starts it for each
// connection to /run/edge-gateway-radio/reset.sock (deploy/systemd), with the connection as standard
// input and output. It reads one line, the controller's address, and answers with one line: "ok" or
// what went wrong.
#include <bluetooth/bluetooth.h>
#include <bluetooth/hci.h>
#include <bluetooth/hci_lib.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

// A controller that was reset needs a moment before it takes commands; USB sticks take the longest.
enum { pause_microseconds = 500 * 1000 };
// Who sends no line is not waited for.
enum { patience_seconds = 5 };

static int fail(const char *step, int error) {
    printf("%s: %s\n", step, strerror(error));
    return 1;
}

// The number of the controller with this address, or -errno.
static int find(int hci, const bdaddr_t *address) {
    struct hci_dev_list_req *list =
        calloc(1, sizeof *list + HCI_MAX_DEV * sizeof(struct hci_dev_req));
    if (!list) return -ENOMEM;
    list->dev_num = HCI_MAX_DEV;
    int found = ioctl(hci, HCIGETDEVLIST, list) < 0 ? -errno : -ENODEV;
    for (int i = 0; found == -ENODEV && i < list->dev_num; i++) {
        struct hci_dev_info info = {.dev_id = list->dev_req[i].dev_id};
        if (ioctl(hci, HCIGETDEVINFO, &info) == 0 && bacmp(&info.bdaddr, address) == 0)
            found = info.dev_id;
    }
    free(list);
    return found;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    alarm(patience_seconds);
    char line[32];
    if (!fgets(line, sizeof line, stdin)) return fail("read address", EINVAL);
    alarm(0);
    line[strcspn(line, "\r\n")] = 0;
    bdaddr_t address;
    if (bachk(line) < 0 || str2ba(line, &address) < 0) return fail("read address", EINVAL);

    int hci = socket(AF_BLUETOOTH, SOCK_RAW | SOCK_CLOEXEC, BTPROTO_HCI);
    if (hci < 0) return fail("open controllers", errno);
    int index = find(hci, &address);
    if (index < 0) return fail("find controller", -index);
    if (ioctl(hci, HCIDEVDOWN, index) < 0) return fail("take controller down", errno);
    usleep(pause_microseconds);
    if (ioctl(hci, HCIDEVUP, index) < 0 && errno != EALREADY)
        return fail("bring controller up", errno);
    puts("ok");
    return 0;
}
