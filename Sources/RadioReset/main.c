// The radio-reset helper: takes a Bluetooth controller down and up again, and nothing else.
//
// The gateway's daemon has no privilege; this program has CAP_NET_ADMIN. systemd starts it for each
// connection to /run/edge-gateway-radio/reset.sock (deploy/systemd), with the connection as standard
// input and output. It reads one line, the controller's address, and answers with one line: "ok" or
// what went wrong. A reset drops every link of the controller; so only root and the user that is named
// as the argument may ask for one, and a few a minute are done.
#define _GNU_SOURCE
#include <bluetooth/bluetooth.h>
#include <bluetooth/hci.h>
#include <bluetooth/hci_lib.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

// A controller that was reset needs a moment before it takes commands; USB sticks take the longest.
enum { pause_microseconds = 500 * 1000 };
// Who sends no line is not waited for.
enum { patience_seconds = 5 };
// The gateway asks four times an hour at most.
enum { resets_max = 6, period_seconds = 60 };

static int fail(const char *step, int error) {
    printf("%s: %s\n", step, strerror(error));
    return 1;
}

// 0 if the peer of the connection may ask for a reset, or -errno. Without a connection the caller's own
// privilege counts.
static int check_peer(const char *user) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return errno == ENOTSOCK ? 0 : -errno;
    if (peer.uid == 0) return 0;
    const struct passwd *entry = user ? getpwnam(user) : NULL;
    return entry && entry->pw_uid == peer.uid ? 0 : -EPERM;
}

// 0 if a reset may be done now, and notes it, or -errno. The times of the last ones are in a file of the
// runtime directory; without one (RUNTIME_DIRECTORY of systemd.exec(5)) there is no limit.
static int take_turn(void) {
    const char *directory = getenv("RUNTIME_DIRECTORY");
    if (!directory || !*directory) return 0;
    char path[256];
    if (snprintf(path, sizeof path, "%s/resets", directory) >= (int)sizeof path)
        return -ENAMETOOLONG;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return -errno;
    int result = flock(file, LOCK_EX) < 0 ? -errno : 0;
    int64_t times[resets_max] = {0};
    struct timespec now;
    if (result == 0 && clock_gettime(CLOCK_BOOTTIME, &now) < 0) result = -errno;
    // The times go round: the first is the oldest. Those of another boot may be later than now.
    if (result == 0 && pread(file, times, sizeof times, 0) == sizeof times && times[0] != 0 &&
        times[0] <= now.tv_sec && now.tv_sec - times[0] < period_seconds)
        result = -EBUSY;
    if (result == 0) {
        memmove(times, times + 1, sizeof times - sizeof times[0]);
        times[resets_max - 1] = now.tv_sec;
        if (pwrite(file, times, sizeof times, 0) != sizeof times) result = -EIO;
    }
    close(file);
    return result;
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

int main(int count, char **words) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    int allowed = check_peer(count > 1 ? words[1] : NULL);
    if (allowed < 0) return fail("check who asks", -allowed);
    alarm(patience_seconds);
    char line[32];
    if (!fgets(line, sizeof line, stdin)) return fail("read address", EINVAL);
    alarm(0);
    line[strcspn(line, "\r\n")] = 0;
    bdaddr_t address;
    if (bachk(line) < 0 || str2ba(line, &address) < 0) return fail("read address", EINVAL);

    int turn = take_turn();
    if (turn < 0) return fail("too many resets in a minute", -turn);
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
