// NSArray and NSDictionary, over vectors.
#include <Foundation/Foundation.h>
#include <algorithm>
#include <utility>
#include <vector>

#include "runtime.h"

namespace {
using Items = std::vector<id>;
using Entries = std::vector<std::pair<id, id>>;
Items& items_of(void* items) { return *static_cast<Items*>(items); }
Entries& entries_of(void* entries) { return *static_cast<Entries*>(entries); }
}  // namespace

@implementation NSArray
+ (instancetype)array {
  return [[[self alloc] init] autorelease];
}
+ (instancetype)arrayWithObject:(id)object {
  return [self arrayWithObjects:&object count:1];
}
+ (instancetype)arrayWithObjects:(const id[])objects count:(NSUInteger)count {
  return [[[self alloc] initWithObjects:objects count:count] autorelease];
}
+ (instancetype)arrayWithArray:(NSArray*)array {
  return [[[self alloc] initWithArray:array] autorelease];
}
- (instancetype)init {
  return [self initWithObjects:nullptr count:0];
}
- (instancetype)initWithObjects:(const id[])objects count:(NSUInteger)count {
  self = [super init];
  items_ = new Items(objects, objects + count);
  for (id item : items_of(items_)) {
    apple::expect(item != nil, "an NSArray cannot hold nil");
    [item retain];
  }
  return self;
}
- (instancetype)initWithArray:(NSArray*)array {
  const Items& others = items_of(array->items_);
  return [self initWithObjects:others.data() count:others.size()];
}
- (void)dealloc {
  for (id item : items_of(items_)) [item release];
  delete &items_of(items_);
  [super dealloc];
}
- (NSUInteger)count {
  return items_of(items_).size();
}
- (id)objectAtIndex:(NSUInteger)index {
  apple::expect(index < items_of(items_).size(), "an index is beyond the end of an NSArray");
  return items_of(items_)[index];
}
- (id)objectAtIndexedSubscript:(NSUInteger)index {
  return [self objectAtIndex:index];
}
- (id)firstObject {
  return items_of(items_).empty() ? nil : items_of(items_).front();
}
- (id)lastObject {
  return items_of(items_).empty() ? nil : items_of(items_).back();
}
- (BOOL)containsObject:(id)object {
  return [self indexOfObject:object] != static_cast<NSUInteger>(NSNotFound);
}
- (NSUInteger)indexOfObject:(id)object {
  const Items& items = items_of(items_);
  for (NSUInteger index = 0; index < items.size(); ++index)
    if ([items[index] isEqual:object]) return index;
  return static_cast<NSUInteger>(NSNotFound);
}
- (NSUInteger)indexOfObjectIdenticalTo:(id)object {
  const Items& items = items_of(items_);
  const auto found = std::find(items.begin(), items.end(), object);
  return found == items.end() ? static_cast<NSUInteger>(NSNotFound)
                              : static_cast<NSUInteger>(found - items.begin());
}
- (NSArray*)subarrayWithRange:(NSRange)range {
  apple::expect(range.location + range.length <= [self count], "a range is beyond an NSArray");
  return [NSArray arrayWithObjects:items_of(items_).data() + range.location count:range.length];
}
- (BOOL)isEqual:(id)object {
  if (![object isKindOfClass:[NSArray class]] || [object count] != [self count]) return NO;
  for (NSUInteger index = 0; index < [self count]; ++index)
    if (![[self objectAtIndex:index] isEqual:[object objectAtIndex:index]]) return NO;
  return YES;
}
- (NSUInteger)hash {
  return [self count];
}
- (id)copyWithZone:(NSZone*)zone {
  return [[NSArray allocWithZone:zone] initWithArray:self];
}
- (id)mutableCopyWithZone:(NSZone*)zone {
  return [[NSMutableArray allocWithZone:zone] initWithArray:self];
}
- (NSUInteger)countByEnumeratingWithState:(NSFastEnumerationState*)state
                                  objects:(id[])buffer
                                    count:(NSUInteger)length {
  (void)buffer, (void)length;
  if (state->state != 0) return 0;
  state->state = 1;
  state->itemsPtr = items_of(items_).data();
  state->mutationsPtr = &changes_;
  return items_of(items_).size();
}
@end

@implementation NSMutableArray
+ (instancetype)arrayWithCapacity:(NSUInteger)count {
  return [[[self alloc] initWithCapacity:count] autorelease];
}
- (instancetype)initWithCapacity:(NSUInteger)count {
  self = [self init];
  items_of(items_).reserve(count);
  return self;
}
- (void)addObject:(id)object {
  [self insertObject:object atIndex:[self count]];
}
- (void)insertObject:(id)object atIndex:(NSUInteger)index {
  apple::expect(object != nil, "an NSArray cannot hold nil");
  apple::expect(index <= [self count], "an index is beyond the end of an NSArray");
  ++changes_;
  items_of(items_).insert(items_of(items_).begin() + static_cast<NSInteger>(index),
                          [object retain]);
}
- (void)replaceObjectAtIndex:(NSUInteger)index withObject:(id)object {
  apple::expect(object != nil, "an NSArray cannot hold nil");
  apple::expect(index < [self count], "an index is beyond the end of an NSArray");
  std::swap(items_of(items_)[index], object);
  [items_of(items_)[index] retain];
  [object release];
}
- (void)removeObjectAtIndex:(NSUInteger)index {
  apple::expect(index < [self count], "an index is beyond the end of an NSArray");
  ++changes_;
  const auto place = items_of(items_).begin() + static_cast<NSInteger>(index);
  [*place release];
  items_of(items_).erase(place);
}
- (void)removeLastObject {
  [self removeObjectAtIndex:[self count] - 1];
}
- (void)removeAllObjects {
  while ([self count] != 0) [self removeLastObject];
}
@end

@implementation NSDictionary
+ (instancetype)dictionary {
  return [[[self alloc] init] autorelease];
}
+ (instancetype)dictionaryWithObject:(id)object forKey:(id)key {
  return [[[self alloc] initWithObjects:&object forKeys:&key count:1] autorelease];
}
- (instancetype)init {
  return [self initWithObjects:nullptr forKeys:nullptr count:0];
}
- (instancetype)initWithObjects:(const id[])objects
                        forKeys:(const id[])keys
                          count:(NSUInteger)count {
  self = [super init];
  entries_ = new Entries;
  for (NSUInteger index = 0; index < count; ++index)
    entries_of(entries_).emplace_back([keys[index] copy], [objects[index] retain]);
  return self;
}
- (void)dealloc {
  for (auto& [key, object] : entries_of(entries_)) {
    [key release];
    [object release];
  }
  delete &entries_of(entries_);
  [super dealloc];
}
- (NSUInteger)count {
  return entries_of(entries_).size();
}
- (id)objectForKey:(id)wanted {
  for (auto& [key, object] : entries_of(entries_))
    if ([key isEqual:wanted]) return object;
  return nil;
}
- (NSArray*)allKeys {
  NSMutableArray* keys = [NSMutableArray array];
  for (auto& [key, object] : entries_of(entries_)) [keys addObject:key];
  return keys;
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  NSMutableDictionary* copy = [[NSMutableDictionary alloc] init];
  for (auto& [key, object] : entries_of(entries_)) [copy setObject:object forKey:key];
  return copy;
}
@end

@implementation NSMutableDictionary
- (void)setObject:(id)object forKey:(id)key {
  [object retain];
  [self removeObjectForKey:key];
  entries_of(entries_).emplace_back([key copy], object);
}
- (void)removeObjectForKey:(id)wanted {
  Entries& entries = entries_of(entries_);
  for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
    if (![entry->first isEqual:wanted]) continue;
    [entry->first release];
    [entry->second release];
    entries.erase(entry);
    return;
  }
}
@end
