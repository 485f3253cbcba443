/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are read and written whole: modes, limits, links, what is left where a write fails.
 */
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "support.h"

static int count_entries(void)
{
    DIR *dir = opendir(support_folder);
    int n = 0;

    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(dir);
    return n;
}

static void expect_content(const char *path, const char *content, size_t n)
{
    struct pst_error err;
    size_t length = 0;
    char *text = NULL;

    assert_ok(pst_file_read(path, 1 << 26, "input.path", &text, &length, &err), &err);
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

TEST_WITH(what_is_written_is_read, support_begin, support_end)
{
    static const char content[] = "with\0nul and \xFF";
    struct pst_error err;

    assert_ok(pst_file_write(support_path("a"), content, sizeof content, &err), &err);
    expect_content(support_path("a"), content, sizeof content);
    assert_ok(pst_file_write(support_path("a"), "", 0, &err), &err);
    expect_content(support_path("a"), "", 0);
    assert_int_equal(count_entries(), 1);
}

TEST_WITH(mode_follows_the_umask, support_begin, support_end)
{
    mode_t old = umask(027);
    struct pst_error err;
    struct stat info;

    assert_ok(pst_file_write(support_path("m"), "x", 1, &err), &err);
    umask(old);
    assert_int_equal(stat(support_path("m"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

TEST_WITH(only_regular_files_are_read, support_begin, support_end)
{
    assert_int_equal(mkfifo(support_path("fifo"), 0600), 0);
    /* Returns at once although nobody writes: a blocking open would hang the test. */
    expect_refusal(support_path("fifo"), 100, "input.path", "input.path",
                   "a FIFO, not a regular file");
    expect_refusal(support_folder, 100, "config.file", "config.file",
                   "a folder, not a regular file");
    expect_refusal("/dev/null", 100, "config.file", "config.file",
                   "a device or socket, not a regular file");
    expect_refusal(support_path("none"), 100, "config.file", "config.file",
                   "cannot open the file: No such file or directory");
}

TEST_WITH(size_is_limited, support_begin, support_end)
{
    struct pst_error err;

    assert_ok(pst_file_write(support_path("five"), "12345", 5, &err), &err);
    expect_refusal(support_path("five"), 4, "config.file", "config.limit",
                   "the file is larger than 4 B");
    expect_refusal(support_path("five"), 4, "input.path", "input.limit",
                   "the file is larger than 4 B");
    expect_refusal("/proc/self/status", 16, "input.path", "input.limit",
                   "the file is larger than 16 B"); /* its size is said to be 0 */
    {
        size_t length = 0;
        char *text = NULL;

        assert_ok(pst_file_read(support_path("five"), 5, "x", &text, &length, &err), &err);
        assert_int_equal(length, 5);
        free(text);
        assert_ok(pst_file_read("/proc/self/status", 1 << 20, "x", &text, &length, &err), &err);
        assert_true(length > 100 && strlen(text) == length);
        free(text);
    }
}

TEST_WITH(failed_write_leaves_the_old_file, support_begin, support_end)
{
    struct rlimit old, small = {.rlim_cur = 4096, .rlim_max = 4096};
    static char big[100000];
    struct pst_error err;
    void (*handler)(int);
    int entries;
    pst_status st;

    assert_ok(pst_file_write(support_path("keep"), "old", 3, &err), &err);
    entries = count_entries();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    handler = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    st = pst_file_write(support_path("keep"), big, sizeof big, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    assert_int_equal(st, PST_ERR_IO);
    assert_string_equal(err.kind, "output.write");
    assert_string_equal(err.message, "cannot write the file: File too large");
    expect_content(support_path("keep"), "old", 3);
    assert_int_equal(count_entries(), entries); /* no temporary stays */
}

/* By its own name, and by that of the stream, whose place rename would take. */
TEST_WITH(no_file_takes_the_place_of_a_standard_stream, support_begin, support_end)
{
    const char *words = "cannot write there: this file is a standard stream of the command";
    const int before = dup(STDOUT_FILENO),
              fd = open(support_path("stream"), O_CREAT | O_RDWR, 0600);
    struct pst_error by_name, by_stream;
    pst_status name, stream;

    assert_true(before >= 0 && fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
    name = pst_file_write(support_path("stream"), "x", 1, &by_name);
    stream = pst_file_write("/proc/self/fd/1", "x", 1, &by_stream);
    dup2(before, STDOUT_FILENO);
    close(before);
    close(fd);
    assert_int_equal(name, PST_ERR_IO);
    assert_int_equal(stream, PST_ERR_IO);
    assert_memory_equal(by_name.message, words, strlen(words));
    assert_memory_equal(by_stream.message, words, strlen(words));
    expect_content(support_path("stream"), "", 0);
}

TEST_WITH(impossible_targets, support_begin, support_end)
{
    struct pst_error err;
    struct stat info;

    assert_int_equal(pst_file_write(support_path("no/such"), "x", 1, &err), PST_ERR_IO);
    assert_string_equal(err.message, "cannot create a file there: No such file or directory");
    assert_int_equal(pst_file_write(support_folder, "x", 1, &err), PST_ERR_IO);
    assert_string_equal(err.message, "cannot write there: it exists and is not a regular file");
    assert_int_equal(pst_file_write("/dev/null", "x", 1, &err), PST_ERR_IO);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    assert_int_equal(pst_file_write_check(support_path("no/such"), &err), PST_ERR_IO);
    assert_int_equal(pst_file_write_check("/dev/null", &err), PST_ERR_IO);
    assert_ok(pst_file_write_check(support_path("new"), &err), &err);
    assert_int_not_equal(access(support_path("new"), F_OK), 0);
    assert_int_equal(pst_file_write(support_path("none/"), "x", 1, &err), PST_ERR_IO);
    assert_int_equal(pst_file_write("", "x", 1, &err), PST_ERR_IO);
    assert_string_equal(err.message, "cannot write there: not the name of a file");
    assert_int_equal(pst_file_write("/proc/penstock", "x", 1, &err), PST_ERR_IO);
    assert_string_equal(err.kind, "output.write");
    assert_int_equal(pst_error_exit_code(&err), 2);
}

TEST_WITH(link_is_replaced_not_followed, support_begin, support_end)
{
    struct pst_error err;
    struct stat info;

    assert_ok(pst_file_write(support_path("target"), "precious", 8, &err), &err);
    assert_int_equal(symlink(support_path("target"), support_path("link")), 0);
    assert_ok(pst_file_write(support_path("link"), "new", 3, &err), &err);
    assert_int_equal(lstat(support_path("link"), &info), 0);
    assert_true(S_ISREG(info.st_mode));
    expect_content(support_path("target"), "precious", 8);
    expect_content(support_path("link"), "new", 3);
}

TEST_WITH(name_without_a_folder, support_begin, support_end)
{
    char here[512];
    struct pst_error err;
    pst_status st;

    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(support_folder), 0);
    st = pst_file_write("plain", "x", 1, &err);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(st, PST_OK);
    expect_content(support_path("plain"), "x", 1);
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

TEST_WITH(writers_do_not_mix, support_begin, support_end)
{
    static char a[5000], b[5000];
    pthread_t threads[2];
    struct pst_error err;
    size_t length = 0;
    char *text = NULL;
    void *failed;

    strcpy(shared_path, support_path("shared"));
    memset(a, 'a', sizeof a);
    memset(b, 'b', sizeof b);
    pthread_create(&threads[0], NULL, write_often, a);
    pthread_create(&threads[1], NULL, write_often, b);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_ok(pst_file_read(support_path("shared"), 1 << 20, "x", &text, &length, &err), &err);
    assert_int_equal(length, 5000);
    assert_memory_equal(text, text[0] == 'a' ? a : b, 5000);
    free(text);
}

/* Parts of a file that is large enough to go past the page cache, in this order; the same as one.
 */
TEST_WITH(large_in_pieces, support_begin, support_end)
{
    static const struct {
        size_t from, to;
    } pieces[] = {{0, 3},
                  {3, 5000},
                  {5000, 19000000},
                  {21000000, 21000001},
                  {21000001, 22000000},
                  {19000000, 20480000},
                  {20480000, 21000000}};
    enum { N = 22000000 };
    struct pst_file_out out;
    struct pst_error err;
    char *content = malloc(N);

    assert_non_null(content);
    for (size_t i = 0; i < N; i++) {
        content[i] = (char)(i * 2654435761u >> 13);
    }
    assert_ok(pst_file_begin(support_path("large"), N, &out, &err), &err);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        assert_ok(pst_file_put(&out, content + pieces[i].from, pieces[i].to - pieces[i].from,
                               pieces[i].from, &err),
                  &err);
    }
    assert_ok(pst_file_end(&out, &err), &err);
    expect_content(support_path("large"), content, N);
    assert_ok(pst_file_write(support_path("whole"), content, N, &err), &err);
    expect_content(support_path("whole"), content, N);
    assert_int_equal(count_entries(), 2);

    assert_ok(pst_file_begin(support_path("whole"), N, &out, &err), &err);
    assert_ok(pst_file_put(&out, content, N / 2, 0, &err), &err);
    pst_file_abandon(&out);
    assert_int_equal(count_entries(), 2);
    free(content);
}

TEST_WITH(folders, support_begin, support_end)
{
    struct pst_error err;
    struct stat info;

    assert_ok(pst_folder_make(support_path("one/two/"), "the folder", &err), &err);
    assert_ok(pst_folder_make(support_path("one/two/three"), "the folder", &err), &err);
    assert_int_equal(stat(support_path("one/two/three"), &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    assert_ok(pst_file_write(support_path("file"), "x", 1, &err), &err);
    assert_int_equal(pst_folder_make(support_path("file/below"), "the folder of x", &err),
                     PST_ERR_IO);
    assert_string_equal(err.message, "cannot make the folder of x: it is not a folder");
    assert_string_equal(err.file, support_path("file"));
    assert_int_equal(pst_folder_make("/proc/penstock", "the folder", &err), PST_ERR_IO);
    assert_string_equal(err.message, "cannot make the folder: No such file or directory");
}
