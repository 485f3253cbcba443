/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a run's checkpoints: made, locked, cleared of what was left half-written.
 */
#include "checkpoint/saver_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/util.h"

pst_status saver_fail(struct pst_error *err, const char *path, const char *what)
{
    const int code = errno;

    return pst_fail_at(err, PST_ERR_IO, "output.write", path, 0, 0, "cannot %s: %s", what,
                       strerror(code));
}

/* --- the lock --------------------------------------------------------------------------------- */

static pst_status fail_locked(int fd, const char *folder, struct pst_error *err)
{
    char who[256] = "";
    const ssize_t n = pread(fd, who, sizeof who - 1, 0);

    who[n > 0 ? n : 0] = '\0';
    who[strcspn(who, "\n")] = '\0';
    return pst_fail_at(err, PST_ERR_CONFIG, "output.locked", folder, 0, 0,
                       "another run saves its checkpoints there (%s); give this one another folder",
                       who[0] == '\0' ? "unknown" : who);
}

/* A file system without locks lets two runs in, which it says. */
static pst_status lock_folder(const char *folder, int *ret_lock, struct pst_error *err)
{
    char *path = pst_printf("%s/run.lock", folder), host[128] = "", since[32] = "", *text;
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    const time_t now = time(NULL);
    struct tm moment;
    pst_status status = fd < 0 ? saver_fail(err, path, "open the lock") : PST_OK;

    if (status == PST_OK && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) {
            status = fail_locked(fd, folder, err);
        } else {
            pst_log(PST_LOG_WARN, "checkpoint", "%s: the file system has no locks: %s", path,
                    strerror(errno));
        }
    }
    if (status == PST_OK) {
        gethostname(host, sizeof host - 1);
        gmtime_r(&now, &moment);
        strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &moment);
        text = pst_printf("host %s, process %ld, since %s\n", host, (long)getpid(), since);
        if (ftruncate(fd, 0) != 0 || pwrite(fd, text, strlen(text), 0) < 0) {
            status = saver_fail(err, path, "write the lock");
        }
        free(text);
    }
    free(path);
    if (status != PST_OK && fd >= 0) {
        close(fd);
    } else {
        *ret_lock = fd;
    }
    return status;
}

/* --- what is there ---------------------------------------------------------------------------- */

void saver_remove_folder(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            char *name = pst_printf("%s/%s", path, entry->d_name);

            unlink(name);
            free(name);
        }
    }
    if (fd >= 0 && dir == NULL) {
        close(fd);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    rmdir(path);
}

void saver_remove_all(const char *folder, const char *prefix)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            char *name = pst_printf("%s/%s", folder, entry->d_name);

            saver_remove_folder(name);
            free(name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

/* Refuses a folder with a later checkpoint: a later run would resume from it, not from this run. */
static pst_status check_steps(const struct pst_saver_config *config, struct pst_error *err)
{
    const char *folder = config->session->job->training->checkpoint.folder;
    uint64_t *steps = NULL;
    uint32_t n = 0;
    pst_status status = pst_checkpoint_list(folder, &steps, &n, err);

    if (status == PST_OK && n > 0 && steps[n - 1] > config->first_step) {
        status = pst_fail_at(
            err, PST_ERR_CONFIG, "config.value", folder, 0, 0,
            "the folder has a checkpoint of step %llu, but this run begins %s %llu",
            (unsigned long long)steps[n - 1], config->first_step == 0 ? "at step" : "after step",
            (unsigned long long)config->first_step);
        pst_error_hint(err, "--resume auto resumes from there; else remove the later checkpoints, "
                            "or set another checkpoint.folder");
    }
    free(steps);
    return status;
}

pst_status saver_check_space(const char *folder, uint64_t bytes, struct pst_error *err)
{
    const uint64_t needed = bytes + bytes / 20 + 65536;
    struct statvfs info;
    char need[32], have[32];

    if (statvfs(folder, &info) != 0) {
        return saver_fail(err, folder, "find out how much space is free");
    }
    if (info.f_bavail >= needed / info.f_frsize + 1) {
        return PST_OK;
    }
    return pst_fail_at(err, PST_ERR_IO, "output.write", folder, 0, 0,
                       "a checkpoint needs %s, but %s are free on that disk; free some space, or "
                       "set another checkpoint.folder",
                       pst_format_bytes(need, needed),
                       pst_format_bytes(have, (uint64_t)info.f_bavail * info.f_frsize));
}

pst_status saver_take_folder(const struct pst_saver_config *config, uint64_t bytes, int *ret_lock,
                             struct pst_error *err)
{
    const char *folder = config->session->job->training->checkpoint.folder;
    pst_status status = pst_folder_make(folder, "the folder for checkpoints", err);

    PST_TRY(status, lock_folder(folder, ret_lock, err));
    if (status == PST_OK) {
        saver_remove_all(folder, SAVER_PARTIAL);
        saver_remove_all(folder, SAVER_RETIRED);
        status = check_steps(config, err);
    }
    return status == PST_OK ? saver_check_space(folder, bytes, err) : status;
}
