// The runtime under all doubles: counts, C++ members, autorelease, blocks, exceptions, collections.
#include <Block.h>
#include <Foundation/Foundation.h>
#include <stdexcept>
#include <string>
#include <vector>

#include "checks.h"
#include "runtime.h"

namespace {
int made = 0;
struct Member {
  Member() : words{"a", "b"} { ++made; }
  ~Member() { --made; }
  std::vector<std::string> words;
};
}  // namespace

@interface CheckBase : NSObject {
 @public
  Member member_;
}
@end
@implementation CheckBase
@end
@interface CheckDerived : CheckBase {
 @public
  Member another_;
}
@end
@implementation CheckDerived
@end

CHECK(members_are_constructed_and_destroyed) {
  CheckDerived* object = [[CheckDerived alloc] init];
  REQUIRE(made == 2);
  REQUIRE(object->member_.words.size() == 2 && object->another_.words[1] == "b");
  REQUIRE(apple_live_objects_of("CheckDerived") == 1);
  REQUIRE([[object retain] retainCount] == 2);
  [object release];
  [object release];
  REQUIRE(made == 0);
  REQUIRE(apple_live_objects() == 0);
}

CHECK(pools_release) {
  NSAutoreleasePool* pool = [[NSAutoreleasePool alloc] init];
  [[[CheckBase alloc] init] autorelease];
  NSAutoreleasePool* inner = [[NSAutoreleasePool alloc] init];
  [NSString stringWithUTF8String:"inner"];
  REQUIRE(apple_live_objects() == 4);
  [inner drain];
  REQUIRE(apple_live_objects() == 2);
  [pool release];
  REQUIRE(apple_live_objects() == 0);
}

CHECK(collections_keep_their_objects) {
  NSAutoreleasePool* pool = [[NSAutoreleasePool alloc] init];
  CheckBase* object = [[CheckBase alloc] init];
  NSArray* array = [[NSArray alloc] initWithObjects:(id[]){object, object} count:2];
  [object release];
  REQUIRE([object retainCount] == 2);
  int seen = 0;
  for (id item in array) seen += item == object;
  REQUIRE(seen == 2);
  REQUIRE([array indexOfObjectIdenticalTo:object] == 0);
  NSDictionary* entries = [NSDictionary dictionaryWithObject:array forKey:@"key"];
  [array release];
  REQUIRE([[entries objectForKey:[NSString stringWithUTF8String:"key"]] firstObject] == object);
  NSMutableArray* numbers = [NSMutableArray array];
  [numbers addObject:[NSNumber numberWithInt:3]];
  [numbers insertObject:[NSNumber numberWithFloat:.5f] atIndex:0];
  REQUIRE([[numbers lastObject] intValue] == 3 && [numbers count] == 2);
  NSError* error = [NSError
      errorWithDomain:@"check"
                 code:7
             userInfo:[NSDictionary dictionaryWithObject:@"why" forKey:NSLocalizedDescriptionKey]];
  REQUIRE([[error localizedDescription] isEqualToString:@"why"] && [error code] == 7);
  [pool drain];
  REQUIRE(apple_live_objects() == 0);
}

CHECK(blocks_keep_what_they_capture) {
  CheckBase* object = [[CheckBase alloc] init];
  void (^block)(void) = Block_copy(^{
    REQUIRE(object->member_.words.size() == 2);
  });
  [object release];
  REQUIRE(apple_live_objects() == 1);
  block();
  Block_release(block);
  REQUIRE(apple_live_objects() == 0);
}

CHECK(exceptions_are_caught) {
  std::string caught;
  try {
    Member member;
    throw std::runtime_error("thrown");
  } catch (const std::exception& error) {
    caught = error.what();
  }
  REQUIRE(caught == "thrown" && made == 0);
}

// --- broken rules --------------------------------------------------------------------------------

CHECK(broken_autorelease_without_pool) { [[[CheckBase alloc] init] autorelease]; }

CHECK(broken_pools_out_of_order) {
  NSAutoreleasePool* outer = [[NSAutoreleasePool alloc] init];
  [[NSAutoreleasePool alloc] init];
  [outer drain];
}

CHECK(broken_unknown_selector) { [(NSString*)[[CheckBase alloc] init] length]; }

CHECK(broken_index_beyond_an_array) {
  NSAutoreleasePool* pool = [[NSAutoreleasePool alloc] init];
  [[NSArray array] objectAtIndex:0];
  [pool drain];
}
