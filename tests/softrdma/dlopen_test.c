/* SPDX-License-Identifier: BSD-3-Clause */
/* usage: dlopen_test LIBIBVERBS
 * Programs that open libibverbs and librdmacm by name, and find functions with and without versions. LIBIBVERBS is the
 * path of the machine's own library. The program is linked with neither. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "registered_tests.h"

static const char *installed;

/* Stores the address of a function into a pointer to functions. */
static void find(void *library, const char *name, void *pointer)
{
    *(void **)pointer = dlsym(library, name);
    if (*(void **)pointer == NULL)
        fail_msg("%s", dlerror());
}

static void assert_is_device(void *library)
{
    int count = -1;
    void **(*list)(int *);
    const char *(*name)(void *);
    find(library, "ibv_get_device_list", &list);
    find(library, "ibv_get_device_name", &name);
    void **devices = list(&count);
    assert_non_null(devices);
    assert_int_equal(count, 1);
    assert_string_equal(name(devices[0]), "softrdma0");
}

TEST(each_name_opens_the_device)
{
    const char *names[] = {"libibverbs.so", "libibverbs.so.1", "librdmacm.so", "librdmacm.so.1",
            "/usr/lib/libibverbs.so.1", installed};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library == NULL)
            fail_msg("%s: %s", names[i], dlerror());
        assert_is_device(library);
        assert_ptr_equal(dlmopen(LM_ID_BASE, names[i], RTLD_NOW), library);
        assert_int_equal(dlclose(library), 0);
        assert_int_equal(dlclose(library), 0);
    }
    void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    assert_is_device(library);
}

TEST(versions_are_found)
{
    const char *functions[][2] = {{"ibv_get_device_list", "IBVERBS_1.1"}, {"ibv_create_comp_channel", "IBVERBS_1.0"},
            {"ibv_reg_dmabuf_mr", "IBVERBS_1.12"}, {"rdma_create_id", "RDMACM_1.0"}};
    void *library = dlopen("libibverbs.so.1", RTLD_LAZY);
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *found = dlvsym(library, functions[i][0], functions[i][1]);
        assert_non_null(found);
        assert_ptr_equal(found, dlsym(library, functions[i][0]));
    }
    assert_null(dlvsym(library, "ibv_no_such_function", "IBVERBS_1.1"));
}

/* dlopen() searches the directories of the caller, which only the caller's own library lists. */
TEST(libraries_of_the_caller_are_found)
{
    void *library = dlopen("libsoftrdma_found_by_runpath.so", RTLD_NOW);
    if (library == NULL)
        fail_msg("%s", dlerror());
    int (*found_by_runpath)(void);
    find(library, "found_by_runpath", &found_by_runpath);
    assert_int_equal(found_by_runpath(), 41);
    assert_null(dlopen("libsoftrdma_no_such_library.so", RTLD_NOW));
    assert_non_null(strstr(dlerror(), "libsoftrdma_no_such_library.so"));
    void *program = dlopen(NULL, RTLD_LAZY);
    assert_ptr_equal(dlsym(program, "main"), dlsym(RTLD_DEFAULT, "main"));
    assert_ptr_equal(dlvsym(RTLD_DEFAULT, "dlclose", "GLIBC_2.34"), dlsym(RTLD_DEFAULT, "dlclose"));
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    installed = argv[1];
    return run_registered_tests();
}
