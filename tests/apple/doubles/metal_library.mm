// Doubles of MTLLibrary and its functions: the shaders of the backend, compiled as C++.
#include "metal_library.h"

#include <map>
#include <regex>

#include "runtime.h"

@interface AppleLibrary : NSObject <MTLLibrary> {
 @public
  id<MTLDevice> device_;
  std::map<std::string, std::set<NSUInteger>> kernels_;  // indices of the buffers of each
}
@end

@implementation MTLCompileOptions
- (instancetype)init {
  self = [super init];
  fastMathEnabled_ = YES;
  return self;
}
- (BOOL)fastMathEnabled {
  return fastMathEnabled_;
}
- (void)setFastMathEnabled:(BOOL)enabled {
  fastMathEnabled_ = enabled;
}
- (NSUInteger)languageVersion {
  return languageVersion_;
}
- (void)setLanguageVersion:(NSUInteger)version {
  languageVersion_ = version;
}
- (id)copyWithZone:(NSZone*)zone {
  MTLCompileOptions* copy = [[MTLCompileOptions allocWithZone:zone] init];
  copy->fastMathEnabled_ = fastMathEnabled_;
  copy->languageVersion_ = languageVersion_;
  return copy;
}
@end

@implementation AppleFunction
- (void)dealloc {
  [device_ release];
  [super dealloc];
}
- (id<MTLDevice>)device {
  return device_;
}
- (NSString*)name {
  return [NSString stringWithUTF8String:name_.c_str()];
}
@end

@implementation AppleLibrary
- (void)dealloc {
  [device_ release];
  [super dealloc];
}
- (id<MTLDevice>)device {
  return device_;
}
- (NSArray<NSString*>*)functionNames {
  NSMutableArray* names = [NSMutableArray array];
  for (const auto& [name, buffers] : kernels_)
    [names addObject:[NSString stringWithUTF8String:name.c_str()]];
  return names;
}
- (id<MTLFunction>)newFunctionWithName:(NSString*)functionName {
  const auto found = kernels_.find([functionName UTF8String]);
  if (found == kernels_.end()) return nil;
  const shim::Run run = shim::find(found->first);
  if (run == nullptr) apple::fail("the kernel " + found->first + " was not compiled as C++");
  AppleFunction* function = [[AppleFunction alloc] init];
  function->device_ = [device_ retain];
  function->name_ = found->first;
  function->run_ = run;
  function->buffers_ = found->second;
  return function;
}
@end

@implementation ApplePipeline
- (void)dealloc {
  [function_ release];
  [super dealloc];
}
- (id<MTLDevice>)device {
  return [function_ device];
}
- (NSUInteger)maxTotalThreadsPerThreadgroup {
  return 1024;
}
- (NSUInteger)threadExecutionWidth {
  return 32;
}
- (NSUInteger)staticThreadgroupMemoryLength {
  return 0;
}
@end

namespace apple {

id<MTLLibrary> make_library(id<MTLDevice> device, NSString* source, NSError** error) {
  if (error != nullptr) *error = nil;
  const std::string text = [source UTF8String];
  AppleLibrary* library = [[AppleLibrary alloc] init];
  library->device_ = [device retain];
  static const std::regex kernel(R"(\bkernel\s+void\s+(\w+)\s*\()");
  static const std::regex index(R"(\[\[\s*buffer\(\s*(\d+)\s*\)\s*\]\])");
  for (std::sregex_iterator found(text.begin(), text.end(), kernel), end; found != end; ++found) {
    const std::size_t begin = static_cast<std::size_t>(found->position() + found->length());
    const std::string arguments = text.substr(begin, text.find('{', begin) - begin);
    std::set<NSUInteger>& buffers = library->kernels_[(*found)[1]];
    for (std::sregex_iterator at(arguments.begin(), arguments.end(), index); at != end; ++at)
      buffers.insert(std::stoul((*at)[1]));
    // The shim hands a kernel its buffers in order.
    expect(buffers.empty() || *buffers.rbegin() + 1 == buffers.size(),
           "the buffers of a kernel are not numbered 0, 1, 2 …");
  }
  if (!library->kernels_.empty()) return library;
  [library release];
  if (error != nullptr)
    *error =
        [NSError errorWithDomain:@"MTLLibraryErrorDomain"
                            code:3
                        userInfo:[NSDictionary dictionaryWithObject:@"the source has no kernel"
                                                             forKey:NSLocalizedDescriptionKey]];
  return nil;
}

id<MTLComputePipelineState> make_pipeline(id<MTLFunction> function) {
  expect(function != nil, "a pipeline of no function");
  ApplePipeline* pipeline = [[ApplePipeline alloc] init];
  pipeline->function_ = [(AppleFunction*)function retain];
  return pipeline;
}

}  // namespace apple
