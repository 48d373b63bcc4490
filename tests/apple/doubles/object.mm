// The root class. GCC's runtime knows classes and messages only: reference counts, C++ members and
// autorelease are made here.
#include <Foundation/Foundation.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime.h"

namespace {

// Lies before each object.
struct alignas(16) Header {
  std::atomic<NSUInteger> references;
};

std::mutex& counts_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
struct Count {
  std::int64_t live = 0, made = 0;
};
// By class; never destroyed, because objects may outlive static destructors.
std::map<std::string, Count>& counts() {
  static auto* counts = new std::map<std::string, Count>;
  return *counts;
}
void count_made(Class of) {
  std::lock_guard lock(counts_mutex());
  Count& own = counts()[class_getName(of)];
  ++own.live;
  ++own.made;
}
void count_gone(Class of) {
  std::lock_guard lock(counts_mutex());
  --counts()[class_getName(of)].live;
}

Header* header_of(id object) { return reinterpret_cast<Header*>(object) - 1; }

// Calls the routine that the compiler wrote for C++ members of this very class, if there is one.
void call_own(id object, Class of, SEL selector) {
  Method own = class_getInstanceMethod(of, selector);
  if (own == nullptr) return;
  Class base = class_getSuperclass(of);
  if (base != Nil && class_getInstanceMethod(base, selector) == own) return;
  auto* routine = reinterpret_cast<void*>(method_getImplementation(own));
  reinterpret_cast<void (*)(id, SEL)>(routine)(object, selector);
}

void construct(id object, Class of) {
  if (Class base = class_getSuperclass(of); base != Nil) construct(object, base);
  call_own(object, of, sel_registerName(".cxx_construct"));
}

void destruct(id object) {
  for (Class of = object_getClass(object); of != Nil; of = class_getSuperclass(of))
    call_own(object, of, sel_registerName(".cxx_destruct"));
}

thread_local NSAutoreleasePool* innermost_pool = nil;

}  // namespace

namespace apple {
void fail(const std::string& sentence) {
  std::fprintf(stderr, "Apple double: %s\n", sentence.c_str());
  std::fflush(stderr);
  std::abort();
}

bool lenient() {
  const char* readings = std::getenv("APPLE_DOUBLE_READINGS");
  return readings != nullptr && std::string(readings) == "lenient";
}
}  // namespace apple

std::int64_t apple_live_objects() {
  std::lock_guard lock(counts_mutex());
  std::int64_t sum = 0;
  for (const auto& [name, count] : counts()) sum += count.live;
  return sum;
}

std::int64_t apple_live_objects_of(const char* class_name) {
  std::lock_guard lock(counts_mutex());
  return counts()[class_name].live;
}

std::int64_t apple_made_objects_of(const char* class_name) {
  std::lock_guard lock(counts_mutex());
  return counts()[class_name].made;
}

@implementation NSObject
+ (void)load {
}
+ (void)initialize {
}
+ (instancetype)alloc {
  return [self allocWithZone:nullptr];
}
+ (instancetype)allocWithZone:(NSZone*)zone {
  (void)zone;
  const size_t bytes = sizeof(Header) + class_getInstanceSize(self);
  auto* header = static_cast<Header*>(std::aligned_alloc(16, (bytes + 15) / 16 * 16));
  std::memset(static_cast<void*>(header), 0, bytes);
  header->references = 1;
  id object = reinterpret_cast<id>(header + 1);
  object_setClass(object, self);
  construct(object, self);
  count_made(self);
  return object;
}
+ (instancetype)new {
  return [[self alloc] init];
}
+ (Class)class {
  return self;
}
+ (Class)superclass {
  return class_getSuperclass(self);
}
+ (BOOL)isSubclassOfClass:(Class)aClass {
  for (Class of = self; of != Nil; of = class_getSuperclass(of))
    if (of == aClass) return YES;
  return NO;
}
+ (BOOL)instancesRespondToSelector:(SEL)aSelector {
  return class_getInstanceMethod(self, aSelector) != nullptr;
}
+ (BOOL)conformsToProtocol:(Protocol*)protocol {
  for (Class of = self; of != Nil; of = class_getSuperclass(of))
    if (class_conformsToProtocol(of, protocol)) return YES;
  return NO;
}
+ (NSString*)description {
  return NSStringFromClass(self);
}
// A class is an object as well, and lives forever.
+ (id)retain {
  return self;
}
+ (oneway void)release {
}
- (instancetype)init {
  return self;
}
- (void)dealloc {
  Class of = object_getClass(self);
  destruct(self);
  count_gone(of);
  std::free(header_of(self));
}
- (instancetype)retain {
  header_of(self)->references.fetch_add(1);
  return self;
}
- (oneway void)release {
  const NSUInteger before = header_of(self)->references.fetch_sub(1);
  if (before == 0) apple::fail("an object was released more often than it was retained");
  if (before == 1) [self dealloc];
}
- (instancetype)autorelease {
  [NSAutoreleasePool addObject:self];
  return self;
}
- (NSUInteger)retainCount {
  return header_of(self)->references.load();
}
- (BOOL)isEqual:(id)object {
  return self == object;
}
- (NSUInteger)hash {
  return reinterpret_cast<NSUInteger>(self);
}
- (Class)class {
  return object_getClass(self);
}
- (Class)superclass {
  return class_getSuperclass(object_getClass(self));
}
- (instancetype)self {
  return self;
}
- (BOOL)isKindOfClass:(Class)aClass {
  return [object_getClass(self) isSubclassOfClass:aClass];
}
- (BOOL)isMemberOfClass:(Class)aClass {
  return object_getClass(self) == aClass;
}
- (BOOL)conformsToProtocol:(Protocol*)aProtocol {
  return [object_getClass(self) conformsToProtocol:aProtocol];
}
- (BOOL)respondsToSelector:(SEL)aSelector {
  return class_getInstanceMethod(object_getClass(self), aSelector) != nullptr;
}
- (id)copy {
  return [(id<NSCopying>)self copyWithZone:nullptr];
}
- (id)mutableCopy {
  return [(id<NSMutableCopying>)self mutableCopyWithZone:nullptr];
}
- (NSString*)description {
  return NSStringFromClass(object_getClass(self));
}
- (void)doesNotRecognizeSelector:(SEL)aSelector {
  apple::fail(std::string(class_getName(object_getClass(self))) + " has no method " +
              sel_getName(aSelector));
}
// GCC's runtime sends this where an object has no method of a name.
// clang-format off
- (id)forward:(SEL)aSelector :(void*)arguments {
  // clang-format on
  (void)arguments;
  [self doesNotRecognizeSelector:aSelector];
  return nil;
}
@end

@implementation NSCoder
@end
@implementation NSKeyedUnarchiver
@end
@implementation NSSet
@end

@implementation NSAutoreleasePool
- (instancetype)init {
  self = [super init];
  objects_ = new std::vector<id>;
  outer_ = innermost_pool;
  innermost_pool = self;
  return self;
}
- (void)addObject:(id)object {
  static_cast<std::vector<id>*>(objects_)->push_back(object);
}
+ (void)addObject:(id)object {
  apple::expect(innermost_pool != nil,
                "an object was autoreleased outside of any NSAutoreleasePool and would leak");
  [innermost_pool addObject:object];
}
- (void)drain {
  [self release];
}
- (instancetype)retain {
  apple::fail("an NSAutoreleasePool cannot be retained");
}
- (instancetype)autorelease {
  apple::fail("an NSAutoreleasePool cannot be autoreleased");
}
- (void)dealloc {
  apple::expect(innermost_pool == self, "NSAutoreleasePools must be drained innermost first");
  auto* objects = static_cast<std::vector<id>*>(objects_);
  // What is released may autorelease more.
  while (!objects->empty()) {
    id last = objects->back();
    objects->pop_back();
    [last release];
  }
  innermost_pool = outer_;
  delete objects;
  [super dealloc];
}
@end
