// What libstdc++ and the headers of a later glibc ask for, in terms of glibc 2.28. Linked into each library, hidden.
#include <stdint.h>
#include <sys/random.h>
#include <sys/stat.h>

// 2.32. Never true: reference counts are atomic even where there is one thread.
char __libc_single_threaded = 0;

// 2.33. Before, these were inline functions over ones whose first argument names the layout of struct stat.
#ifdef __x86_64__
enum { kLayout = 1 };
#else
enum { kLayout = 0 };
#endif
extern int __xstat(int layout, const char* path, struct stat* status);
extern int __lxstat(int layout, const char* path, struct stat* status);
extern int __fxstat(int layout, int file, struct stat* status);
int stat(const char* path, struct stat* status) { return __xstat(kLayout, path, status); }
int lstat(const char* path, struct stat* status) { return __lxstat(kLayout, path, status); }
int fstat(int file, struct stat* status) { return __fxstat(kLayout, file, status); }

// 2.36. What std::random_device reads.
uint32_t arc4random(void) {
  uint32_t value;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

// 2.38. The older functions differ only in not knowing 0b as a prefix, which C23 has. By their symbols' names, as
// headers call the newer ones by the older ones' names.
extern long strtol_2_2(const char* text, char** end, int base) __asm__("strtol");
extern unsigned long strtoul_2_2(const char* text, char** end, int base) __asm__("strtoul");
extern long long strtoll_2_2(const char* text, char** end, int base) __asm__("strtoll");
extern unsigned long long strtoull_2_2(const char* text, char** end, int base) __asm__("strtoull");
long __isoc23_strtol(const char* text, char** end, int base) { return strtol_2_2(text, end, base); }
unsigned long __isoc23_strtoul(const char* text, char** end, int base) { return strtoul_2_2(text, end, base); }
long long __isoc23_strtoll(const char* text, char** end, int base) { return strtoll_2_2(text, end, base); }
unsigned long long __isoc23_strtoull(const char* text, char** end, int base) { return strtoull_2_2(text, end, base); }
