/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's entry; everything else is in cli.c.
 */
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include "commands/cli.h"

/* A stream that the caller closed must not become the number of a file that is opened later. Opened
   the wrong way round, it fails as a closed one does. */
static void occupy_streams(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) {
            return;
        }
    }
}

/* Plans of thousands of devices are built rank by rank in the same tables. The kernel would clear
   their pages for each rank anew if the allocator returned them after every one. */
static void keep_memory(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, 16 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

int main(int argc, char **argv)
{
    occupy_streams();
    keep_memory();
    pst_cli_leave(pst_cli_run(argc, argv));
}
