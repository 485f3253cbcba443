/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault_wrap.h"

/* clang-format off */
WRAP("mmap", ENOMEM, MAP_FAILED, void *, mmap,
     (void *at, size_t size, int protection, int flags, int fd, off_t offset),
     (at, size, protection, flags, fd, offset))
WRAP_CODE("thread", EAGAIN, pthread_create,
          (pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *argument),
          (thread, attr, run, argument))
WRAP("open", EMFILE, -1, int, pipe2, (int fds[2], int flags), (fds, flags))
WRAP("open", EMFILE, -1, int, memfd_create, (const char *name, unsigned flags), (name, flags))
WRAP("open", EMFILE, NULL, FILE *, fopen, (const char *path, const char *mode), (path, mode))
WRAP("open", EMFILE, NULL, DIR *, opendir, (const char *path), (path))
WRAP("open", EIO, NULL, char *, realpath, (const char *path, char *real), (path, real))
WRAP("open", EIO, NULL, char *, __realpath_chk, (const char *path, char *real, size_t room),
     (path, real, room))
WRAP("open", EMFILE, -1, int, __open_2, (const char *path, int flags), (path, flags))
WRAP("read", EIO, EOF, int, fgetc, (FILE *stream), (stream))
WRAP("read", EIO, NULL, char *, fgets, (char *text, int size, FILE *stream), (text, size, stream))
WRAP("write", ENOMEM, -1, int, ftruncate, (int fd, off_t length), (fd, length))
WRAP("write", EIO, EOF, int, fflush, (FILE *stream), (stream))
WRAP("fsync", EIO, -1, int, fsync, (int fd), (fd))
WRAP("rename", EIO, -1, int, rename, (const char *from, const char *to), (from, to))
WRAP("mkdir", ENOSPC, -1, int, mkdir, (const char *path, mode_t mode), (path, mode))
WRAP("mkdir", ENOSPC, NULL, char *, mkdtemp, (char *template), (template))
WRAP("unlink", EIO, -1, int, unlink, (const char *path), (path))
WRAP("unlink", EIO, -1, int, rmdir, (const char *path), (path))
/* clang-format on */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_openat(int folder, const char *path, int flags, ...);
int __wrap_openat(int folder, const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    mode_t mode = 0;

    if (flags & O_CREAT) {
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    return fails_at("open", flags & O_CREAT ? ENOSPC : EMFILE, NULL)
               ? -1
               : __real_open(path, flags, mode);
}

int __wrap_openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    mode_t mode = 0;

    if (flags & O_CREAT) {
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    return fails_at("open", flags & O_CREAT ? ENOSPC : EMFILE, NULL)
               ? -1
               : __real_openat(folder, path, flags, mode);
}

ssize_t __real_read(int fd, void *data, size_t size);
ssize_t __real_pread(int fd, void *data, size_t size, off_t offset);
ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_read(int fd, void *data, size_t size);
ssize_t __wrap___read_chk(int fd, void *data, size_t size, size_t room);
ssize_t __wrap_pread(int fd, void *data, size_t size, off_t offset);
ssize_t __wrap___pread_chk(int fd, void *data, size_t size, off_t offset, size_t room);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset);

ssize_t __wrap_read(int fd, void *data, size_t size)
{
    return fails_at("read", EIO, &size) ? -1 : __real_read(fd, data, size);
}

ssize_t __wrap___read_chk(int fd, void *data, size_t size, size_t room)
{
    (void)room;
    return __wrap_read(fd, data, size);
}

ssize_t __wrap_pread(int fd, void *data, size_t size, off_t offset)
{
    return fails_at("read", EIO, &size) ? -1 : __real_pread(fd, data, size, offset);
}

ssize_t __wrap___pread_chk(int fd, void *data, size_t size, off_t offset, size_t room)
{
    (void)room;
    return __wrap_pread(fd, data, size, offset);
}

/* A pipe lacks no space. */
ssize_t __wrap_write(int fd, const void *data, size_t size)
{
    struct stat info;
    const bool on_disk = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);

    return fails_at("write", on_disk ? ENOSPC : EIO, &size) ? -1 : __real_write(fd, data, size);
}

ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset)
{
    return fails_at("write", ENOSPC, &size) ? -1 : __real_pwrite(fd, data, size, offset);
}

/* What is closed is closed, whatever the call says. */
int __real_close(int fd);
int __real_fclose(FILE *stream);
int __wrap_close(int fd);
int __wrap_fclose(FILE *stream);

int __wrap_close(int fd)
{
    const int code = error_at("close", EIO, NULL), closed = __real_close(fd);

    errno = code != 0 ? code : errno;
    return code != 0 ? -1 : closed;
}

int __wrap_fclose(FILE *stream)
{
    const int code = error_at("close", EIO, NULL), closed = __real_fclose(stream);

    errno = code != 0 ? code : errno;
    return code != 0 ? EOF : closed;
}
