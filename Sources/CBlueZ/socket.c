#define _GNU_SOURCE
#include "CBlueZ.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool cbz_socket_prepare(int descriptor) {
    int type = 0, domain = 0, one = 1;
    socklen_t size = sizeof type;
    if (getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) || type != SOCK_SEQPACKET) return false;
    size = sizeof domain;
    if (getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) || domain != AF_UNIX) return false;
    int flags = fcntl(descriptor, F_GETFL);
    // Credentials come with each packet, an empty one too, and not with the end.
    return flags >= 0 && fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0
        && fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0
        && setsockopt(descriptor, SOL_SOCKET, SO_PASSCRED, &one, sizeof one) == 0;
}

cbz_reading cbz_socket_read(int descriptor, uint8_t *buffer, size_t size, size_t *length) {
    // Room for the credentials alone: descriptors that come along are not taken.
    union {
        char room[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr aligned;
    } control;
    struct iovec vector = {.iov_base = buffer, .iov_len = size};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1,
                             .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got;
    do got = recvmsg(descriptor, &message, MSG_DONTWAIT | MSG_TRUNC | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    *length = 0;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? CBZ_NOTHING : CBZ_END;
    if (got == 0 && message.msg_controllen == 0) return CBZ_END;
    *length = (size_t)got;
    return (message.msg_flags & MSG_TRUNC) ? CBZ_OVERSIZE : CBZ_PACKET;
}

size_t cbz_socket_room(size_t size) {
    int ends[2];
    uint8_t packet[64] = {0};
    if (size > sizeof packet
        || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends))
        return 0;
    size_t count = 0;
    while (send(ends[0], packet, size, MSG_NOSIGNAL) == (ssize_t)size) count++;
    close(ends[0]);
    close(ends[1]);
    return count;
}
