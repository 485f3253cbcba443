/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

static pst_status fail(struct pst_error *err, const char *path, const char *what)
{
    return pst_fail_at(err, PST_ERR_IO, "output.write", path, 0, 0, "cannot write there: %s", what);
}

pst_status pst_record_file_open(struct pst_record_file *file, const char *path,
                                struct pst_error *err)
{
    /* O_NONBLOCK: opening a FIFO must not wait for a reader. */
    const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    struct stat info;
    int fd = open(path, flags | O_CREAT | O_EXCL, 0666);

    *file = (struct pst_record_file){.fd = -1, .path = path, .made = fd >= 0};
    if (fd < 0 && errno == EEXIST) {
        fd = open(path, flags);
    }
    if (fd < 0) {
        return fail(err, path, strerror(errno));
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return fail(err, path, "it exists and is not a regular file");
    }
    file->fd = fd;
    file->bytes = (uint64_t)info.st_size;
    return PST_OK;
}

void pst_record_file_add(struct pst_record_file *file, const void *record, size_t length)
{
    const char *at = record;
    size_t left = length;

    while (file->fd >= 0 && left > 0) {
        ssize_t n = write(file->fd, at, left);
        int why = errno;

        if (n < 0 && why == EINTR) {
            continue;
        }
        if (n < 0) {
            bool whole = ftruncate(file->fd, (off_t)file->bytes) == 0;

            close(file->fd);
            file->fd = -1;
            file->lost_errno = why;
            pst_log(PST_LOG_ERROR, "output",
                    "%s: cannot write the file: %s; it ends %s, and the run continues without it",
                    file->path, strerror(why), whole ? "here" : "within a record");
            return;
        }
        at += n;
        left -= (size_t)n;
    }
    file->bytes += length;
}

pst_status pst_record_file_close(struct pst_record_file *file, struct pst_error *err)
{
    pst_status status = PST_OK;

    if (file->fd >= 0 && file->made && file->bytes == 0) {
        unlink(file->path);
    }
    if (file->fd >= 0 && close(file->fd) != 0) {
        file->lost_errno = errno;
    }
    file->fd = -1;
    if (file->lost_errno != 0) {
        status = pst_fail_at(err, PST_ERR_IO, "output.write", file->path, 0, 0,
                             "records are missing at the end of the file: %s",
                             strerror(file->lost_errno));
        if (err != NULL) {
            err->exit_code = 1; /* what the records are about was done */
        }
    }
    return status;
}
