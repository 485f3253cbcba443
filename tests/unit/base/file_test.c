/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[4][512];
    static unsigned next;
    char *text = path[next++ % 4];

    snprintf(text, sizeof path[0], "%s/%s", folder, name);
    return text;
}

static int make_folder(void **state)
{
    strcpy(folder, "/tmp/penstock-file-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int count_entries(void)
{
    DIR *dir = opendir(folder);
    int n = 0;

    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(dir);
    return n;
}

static int remove_folder(void **state)
{
    DIR *dir = opendir(folder);

    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            remove(in_folder(entry->d_name));
        }
    }
    closedir(dir);
    return rmdir(folder);
}

static void expect_content(const char *path, const char *content, size_t n)
{
    struct pst_error err;
    size_t length = 0;
    char *text = NULL;

    assert_int_equal(pst_file_read(path, 1 << 20, "input.path", &text, &length, &err), PST_OK);
    assert_int_equal(length, n);
    assert_memory_equal(text, content, n);
    assert_int_equal(text[n], '\0');
    free(text);
}

static void expect_refusal(const char *path, size_t max, const char *kind, const char *got_kind,
                           const char *message)
{
    struct pst_error err;
    size_t length = 77;
    char *text = NULL;

    assert_int_equal(pst_file_read(path, max, kind, &text, &length, &err), PST_ERR_IO);
    assert_string_equal(err.kind, got_kind);
    assert_string_equal(err.file, path);
    assert_string_equal(err.message, message);
    assert_int_equal(err.status, PST_ERR_IO);
    assert_null(text);
    assert_int_equal(length, 77);
}

TEST_WITH(what_is_written_is_read, make_folder, remove_folder)
{
    static const char content[] = "with\0nul and \xFF";
    struct pst_error err;

    assert_int_equal(pst_file_write(in_folder("a"), content, sizeof content, &err), PST_OK);
    expect_content(in_folder("a"), content, sizeof content);
    assert_int_equal(pst_file_write(in_folder("a"), "", 0, &err), PST_OK);
    expect_content(in_folder("a"), "", 0);
    assert_int_equal(count_entries(), 1);
}

TEST_WITH(mode_follows_the_umask, make_folder, remove_folder)
{
    mode_t old = umask(027);
    struct pst_error err;
    struct stat info;

    assert_int_equal(pst_file_write(in_folder("m"), "x", 1, &err), PST_OK);
    umask(old);
    assert_int_equal(stat(in_folder("m"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

TEST_WITH(only_regular_files_are_read, make_folder, remove_folder)
{
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    /* Returns at once although nobody writes: a blocking open would hang the test. */
    expect_refusal(in_folder("fifo"), 100, "input.path", "input.path",
                   "a FIFO, not a regular file");
    expect_refusal(folder, 100, "config.file", "config.file", "a folder, not a regular file");
    expect_refusal("/dev/null", 100, "config.file", "config.file",
                   "a device or socket, not a regular file");
    expect_refusal(in_folder("none"), 100, "config.file", "config.file",
                   "cannot open the file: No such file or directory");
}

TEST_WITH(size_is_limited, make_folder, remove_folder)
{
    struct pst_error err;

    assert_int_equal(pst_file_write(in_folder("five"), "12345", 5, &err), PST_OK);
    expect_refusal(in_folder("five"), 4, "config.file", "config.limit",
                   "the file is larger than 4 B");
    expect_refusal(in_folder("five"), 4, "input.path", "input.limit",
                   "the file is larger than 4 B");
    expect_refusal("/proc/self/status", 16, "input.path", "input.limit",
                   "the file is larger than 16 B"); /* its size is said to be 0 */
    {
        size_t length = 0;
        char *text = NULL;

        assert_int_equal(pst_file_read(in_folder("five"), 5, "x", &text, &length, &err), PST_OK);
        assert_int_equal(length, 5);
        free(text);
        assert_int_equal(pst_file_read("/proc/self/status", 1 << 20, "x", &text, &length, &err),
                         PST_OK);
        assert_true(length > 100 && strlen(text) == length);
        free(text);
    }
}

TEST_WITH(failed_write_leaves_the_old_file, make_folder, remove_folder)
{
    struct rlimit old, small = {.rlim_cur = 4096, .rlim_max = 4096};
    static char big[100000];
    struct pst_error err;
    void (*handler)(int);
    int entries;
    pst_status st;

    assert_int_equal(pst_file_write(in_folder("keep"), "old", 3, &err), PST_OK);
    entries = count_entries();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    handler = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    st = pst_file_write(in_folder("keep"), big, sizeof big, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    assert_int_equal(st, PST_ERR_IO);
    assert_string_equal(err.kind, "output.write");
    assert_string_equal(err.message, "cannot write the file: File too large");
    expect_content(in_folder("keep"), "old", 3);
    assert_int_equal(count_entries(), entries); /* no temporary stays */
}

TEST_WITH(impossible_targets, make_folder, remove_folder)
{
    struct pst_error err;
    struct stat info;

    assert_int_equal(pst_file_write(in_folder("no/such"), "x", 1, &err), PST_ERR_IO);
    assert_string_equal(err.message, "cannot create a file there: No such file or directory");
    assert_int_equal(pst_file_write(folder, "x", 1, &err), PST_ERR_IO);
    assert_string_equal(err.message, "cannot write there: it exists and is not a regular file");
    assert_int_equal(pst_file_write("/dev/null", "x", 1, &err), PST_ERR_IO);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    assert_int_equal(pst_file_write_check(in_folder("no/such"), &err), PST_ERR_IO);
    assert_int_equal(pst_file_write_check("/dev/null", &err), PST_ERR_IO);
    assert_int_equal(pst_file_write_check(in_folder("new"), &err), PST_OK);
    assert_int_not_equal(access(in_folder("new"), F_OK), 0);
    assert_int_equal(pst_file_write(in_folder("none/"), "x", 1, &err), PST_ERR_IO);
    assert_int_equal(pst_file_write("", "x", 1, &err), PST_ERR_IO);
    assert_string_equal(err.message, "cannot write there: not the name of a file");
    assert_int_equal(pst_file_write("/proc/penstock", "x", 1, &err), PST_ERR_IO);
    assert_string_equal(err.kind, "output.write");
    assert_int_equal(pst_error_exit_code(&err), 2);
}

TEST_WITH(link_is_replaced_not_followed, make_folder, remove_folder)
{
    struct pst_error err;
    struct stat info;

    assert_int_equal(pst_file_write(in_folder("target"), "precious", 8, &err), PST_OK);
    assert_int_equal(symlink(in_folder("target"), in_folder("link")), 0);
    assert_int_equal(pst_file_write(in_folder("link"), "new", 3, &err), PST_OK);
    assert_int_equal(lstat(in_folder("link"), &info), 0);
    assert_true(S_ISREG(info.st_mode));
    expect_content(in_folder("target"), "precious", 8);
    expect_content(in_folder("link"), "new", 3);
}

TEST_WITH(name_without_a_folder, make_folder, remove_folder)
{
    char here[512];
    struct pst_error err;
    pst_status st;

    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    st = pst_file_write("plain", "x", 1, &err);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(st, PST_OK);
    expect_content(in_folder("plain"), "x", 1);
}

static char shared_path[512];

static void *write_often(void *content)
{
    struct pst_error err;

    for (int i = 0; i < 20; i++) {
        if (pst_file_write(shared_path, content, 5000, &err) != PST_OK) {
            return content;
        }
    }
    return NULL;
}

TEST_WITH(writers_do_not_mix, make_folder, remove_folder)
{
    static char a[5000], b[5000];
    pthread_t threads[2];
    struct pst_error err;
    size_t length = 0;
    char *text = NULL;
    void *failed;

    strcpy(shared_path, in_folder("shared"));
    memset(a, 'a', sizeof a);
    memset(b, 'b', sizeof b);
    pthread_create(&threads[0], NULL, write_often, a);
    pthread_create(&threads[1], NULL, write_often, b);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(pst_file_read(in_folder("shared"), 1 << 20, "x", &text, &length, &err),
                     PST_OK);
    assert_int_equal(length, 5000);
    assert_memory_equal(text, text[0] == 'a' ? a : b, 5000);
    free(text);
}
