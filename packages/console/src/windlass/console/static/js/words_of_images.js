// Texts of the page of a new container. They are loaded with it.

export const images = {
  image: "Image", imageHelp: "Such as nginx or ghcr.io/acme/shop. Paste it with its tag, if you like.", tag: "Tag", tagHelp: "A deployment keeps the image that the tag stands for then.", registry: "Login for a private registry", registryHelp: "The image is then named without its host.",
  look: "Check the image", found: "It is there:", reach: "How it is reached", port: "Port", portHelp: "On which the program in the image listens, such as 80 or 8080. Leave it empty if it serves nothing.", isPublic: "Public address", isPublicHelp: "Visitors reach it over HTTP. Otherwise, only services of the same environment do.",
  command: "Command", commandHelp: "Empty: the entrypoint of the image.", imageMissing: "Name an image, such as nginx.",
};
